#![deny(warnings)]

use redlocked::{LockError, distributed_lock};

#[async_trait::async_trait]
pub trait Store {
    async fn load(&self, id: u32) -> Result<String, LockError>;
    async fn save(&mut self, pair: (u32, String)) -> Result<(), LockError>;
}

pub struct Table {
    pub name: String,
}

#[async_trait::async_trait]
impl Store for Table {
    #[distributed_lock(key = "{self.name}:{id}")]
    async fn load(&self, id: u32) -> Result<String, LockError> {
        if id == 0 {
            return Ok(String::new());
        }
        Ok(format!("{}{id}", self.name))
    }

    #[distributed_lock(key = "{self.name}:{id}", on_busy = Ok(()), guard = lock)]
    async fn save(&mut self, (id, mut text): (u32, String)) -> Result<(), LockError> {
        text.push_str(lock.key());
        self.name = format!("{text}{id}");
        Ok(())
    }
}

#[async_trait::async_trait(?Send)]
pub trait Local {
    async fn run(&self) -> Result<(), LockError>;
}

#[async_trait::async_trait(?Send)]
impl Local for std::rc::Rc<Table> {
    #[distributed_lock(key = "{self.name}")]
    async fn run(&self) -> Result<(), LockError> {
        let another = std::rc::Rc::clone(self);
        std::future::ready(()).await;
        drop(another);
        Ok(())
    }
}
