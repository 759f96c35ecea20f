//! Compares the output of the attribute with `tests/snapshots/*.rs`. `UPDATE_SNAPSHOTS=1 cargo
//! test` writes them again.

use std::path::Path;
use std::{env, fs};

use proc_macro2::TokenStream;
use quote::quote;

use crate::expand::expand;

fn compare(name: &str, args: TokenStream, item: TokenStream) {
    let output = syn::parse2(expand(args, item));
    assert!(output.is_ok(), "{name}: {:?}", output.err());
    let Ok(file) = output else { return };
    let found = prettyplease::unparse(&file);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name).with_extension("rs");
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        assert!(fs::write(&path, &found).is_ok(), "cannot write {}", path.display());
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == found, "{name}\n---- expected\n{expected}\n---- found\n{found}");
}

#[test]
fn readme() {
    compare(
        "readme",
        quote!(key = "stock:{sku}", ttl = "10s", wait = "5s"),
        quote! {
            async fn purchase(sku: &str, quantity: u32) -> Result<Receipt, ShopError> {
                shop::buy(sku, quantity).await
            }
        },
    );
}

#[test]
fn keys() {
    compare(
        "keys",
        quote!(keys = ["account:{from}", "account:{to.id}", audit_key(from)], wait = "5s"),
        quote! {
            async fn transfer(from: u64, to: &Account, amount: u64) -> Result<(), BankError> {
                bank::transfer(from, to, amount).await
            }
        },
    );
}

#[test]
fn keys_of_several_kinds() {
    compare(
        "keys_of_several_kinds",
        quote!(keys = [shared "rate", "account:{from}", permits(limit, take = 2) "bank:{bank}"], wait = "5s"),
        quote! {
            async fn transfer(from: u64, bank: &str, limit: u32) -> Result<(), BankError> {
                bank::transfer(from, bank).await
            }
        },
    );
}

#[test]
fn sync_keys() {
    compare(
        "sync_keys",
        quote!(keys = [left, right], manager = self.locks),
        quote! {
            fn merge(&self, left: &str, right: &str) -> Result<(), Error> {
                self.join(left, right)
            }
        },
    );
}

#[test]
fn sync_method() {
    compare(
        "sync_method",
        quote!(key = "report:{name}", wait = "forever", renew = false),
        quote! {
            /// Writes it.
            #[must_use]
            pub(crate) fn report(&mut self, name: &str) -> Result<&mut Report, Error> {
                #![allow(unused)]
                self.write(name)
            }
        },
    );
}

#[test]
fn shared() {
    compare(
        "shared",
        quote!(key = "catalogue:{shop}", shared),
        quote! {
            async fn read_catalogue(shop: &str) -> Result<Catalogue, ShopError> {
                shop::catalogue(shop).await
            }
        },
    );
}

#[test]
fn released_in_background() {
    compare(
        "released_in_background",
        quote!(key = "stock:{sku}", release_in_background),
        quote! {
            async fn purchase(sku: &str) -> Result<Receipt, ShopError> {
                shop::purchase(sku).await
            }
        },
    );
}

#[test]
fn permits() {
    compare(
        "permits",
        quote!(key = "smtp:{host}", permits = 5, wait = "30s"),
        quote! {
            async fn send(host: &str, mail: &Mail) -> Result<(), MailError> {
                smtp::send(host, mail).await
            }
        },
    );
}

#[test]
fn permits_of_an_expression() {
    compare(
        "permits_of_an_expression",
        quote!(key = "tenant:{tenant.id}", permits = { tenant.limit }),
        quote! {
            fn import(tenant: &Tenant) -> Result<(), ImportError> {
                tenant.import()
            }
        },
    );
}

#[test]
fn permits_that_a_caller_takes() {
    compare(
        "permits_that_a_caller_takes",
        quote!(key = "gpu:{gpu}", permits = 16, take = { job.gigabytes }, wait = "1h"),
        quote! {
            async fn train(gpu: u32, job: &Job) -> Result<(), TrainError> {
                job.train(gpu).await
            }
        },
    );
}

#[test]
fn starts_in_a_time() {
    compare(
        "starts_in_a_time",
        quote!(key = "mail:{tenant}", rate = "5/1m", wait = "30s"),
        quote! {
            async fn send(tenant: &str) -> Result<(), MailError> {
                deliver(tenant).await
            }
        },
    );
}

#[test]
fn starts_of_an_expression() {
    compare(
        "starts_of_an_expression",
        quote!(key = "mail:{tenant.id}", rate = (tenant.limit, MINUTE)),
        quote! {
            fn send(tenant: &Tenant) -> Result<(), MailError> {
                deliver(tenant)
            }
        },
    );
}

#[test]
fn guard() {
    compare(
        "guard",
        quote!(key = "ledger", constant_key, guard = lock),
        quote! {
            async fn post(entry: Entry) -> Result<(), Error> {
                save(entry, lock.fencing_token()).await
            }
        },
    );
}

#[test]
fn sync_guard() {
    compare(
        "sync_guard",
        quote!(key = "ledger", constant_key, guard = lock),
        quote! {
            fn post(entry: Entry) -> Result<(), Error> {
                save(entry, lock.fencing_token())
            }
        },
    );
}

#[test]
fn ticket() {
    compare(
        "ticket",
        quote!(key = "export:{id}", ticket = lock),
        quote! {
            async fn begin(id: u64) -> Result<Ticket, Error> {
                lock.into_ticket(MINUTE).await
            }
        },
    );
}

#[test]
fn sync_ticket() {
    compare(
        "sync_ticket",
        quote!(key = "export:{id}", ticket = lock),
        quote! {
            fn begin(id: u64) -> Result<Ticket, Error> {
                lock.into_ticket_blocking(MINUTE)
            }
        },
    );
}

#[test]
fn on_busy() {
    compare(
        "on_busy",
        quote!(key = "nightly", on_busy = Ok(Skipped)),
        quote! {
            async fn nightly() -> Result<Outcome, Error> {
                Ok(Done)
            }
        },
    );
}

#[test]
fn on_error() {
    compare(
        "on_error",
        quote!(key = "n:{n:04}", on_error = |error| log(&error)),
        quote! {
            async fn count(n: u32) {
                tick(n).await;
            }
        },
    );
}

#[test]
fn sync_on_error() {
    compare(
        "sync_on_error",
        quote!(key = "n:{n:04}", on_busy = None, on_error = report),
        quote! {
            fn count(n: u32) -> Option<impl Iterator<Item = u32>> {
                Some(0..n)
            }
        },
    );
}

#[test]
fn holding() {
    compare(
        "holding",
        quote!(key = "nightly", max_hold = "1h", min_hold = self.period / 2, on_lost = "finish", reentrant),
        quote! {
            async fn nightly(&self) -> Result<(), Error> {
                self.tidy().await
            }
        },
    );
}

#[test]
fn sync_holding() {
    compare(
        "sync_holding",
        quote!(
            key = "nightly",
            constant_key,
            ttl = "10s",
            wait = "1s",
            renew = true,
            max_hold = max,
            min_hold = "5m",
            reentrant = false
        ),
        quote! {
            fn nightly(max: Duration) -> Result<(), Error> {
                tidy()
            }
        },
    );
}

#[test]
fn async_trait() {
    compare(
        "async_trait",
        quote!(key = "{self.tenant}:{a}", manager = self.locks),
        quote! {
            fn transfer<'life0, 'async_trait>(
                &'life0 mut self,
                __arg1: (u32, u32),
                amount: u64,
            ) -> ::core::pin::Pin<Box<
                dyn ::core::future::Future<Output = Result<(), Error>> + ::core::marker::Send + 'async_trait
            >>
            where
                'life0: 'async_trait,
                Self: 'async_trait,
            {
                Box::pin(async move {
                    if let ::core::option::Option::Some(__ret) =
                        ::core::option::Option::None::<Result<(), Error>>
                    {
                        #[allow(unreachable_code)]
                        return __ret;
                    }
                    let mut __self = self;
                    let (a, b) = {
                        let __arg1 = __arg1;
                        __arg1
                    };
                    let amount = amount;
                    let __ret: Result<(), Error> = { __self.book(a, b, amount).await };
                    #[allow(unreachable_code)]
                    __ret
                })
            }
        },
    );
}

#[test]
fn async_trait_before_0_1_44() {
    compare(
        "async_trait_before_0_1_44",
        quote!(key = "{self.tenant}:{id}"),
        quote! {
            fn load<'life0, 'async_trait>(&'life0 self, id: u32)
                -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = Result<Row, Error>> + Send + 'async_trait>>
            where
                'life0: 'async_trait,
                Self: Sync + 'async_trait,
            {
                async fn load(_self: &Table, id: u32) -> Result<Row, Error> {
                    _self.row(id).await
                }
                Box::pin(load(self, id))
            }
        },
    );
}

#[test]
fn boxed_by_hand() {
    compare(
        "boxed_by_hand",
        quote!(key = "{path}"),
        quote! {
            fn walk(path: String) -> BoxFuture<'static, Result<(), Error>> {
                Box::pin(async move { step(&path).await })
            }
        },
    );
}

#[test]
fn dotted_key() {
    compare(
        "dotted_key",
        quote!(key = "{TENANT}:{{{self.kind}}}:{req.user.id:04}:{pair.0}:{plain}:{req.user.id}"),
        quote! {
            async fn send(&self, req: &Request, pair: (u8, u8), plain: &str) -> Result<(), Error> {
                self.client.send(req).await
            }
        },
    );
}

#[test]
fn keys_that_look_alike() {
    compare(
        "keys_that_look_alike",
        quote!(key = "{a.b_c}:{a_b.c}:{a_b_c}:{self}:{a.b_c:04}"),
        quote! {
            async fn alike(&self, a: A, a_b: B, a_b_c: u8) -> Result<(), Error> {
                Ok(())
            }
        },
    );
}

#[test]
fn patterns() {
    compare(
        "patterns",
        quote!(key = "{sku}:{x}:{y}:{first}:{whole:?}:{type}"),
        quote! {
            async fn patterns(
                Path(sku): Path<String>,
                Point { x, y: (y, _), .. }: Point,
                [first, ..]: [u8; 4],
                whole @ (_, _): (u8, u8),
                mut r#type: u8,
            ) -> Result<(), Error> {
                Ok(())
            }
        },
    );
}

#[test]
fn expression_key() {
    compare(
        "expression_key",
        quote!(
            key = "order:".to_owned() + &order.id(),
            ttl = config.ttl,
            wait = Duration::from_secs(5),
            manager = config.locks,
            crate = crate::vendor::redlocked,
        ),
        quote! {
            async fn ship(order: Order) -> Result<(), Error> {
                Ok(())
            }
        },
    );
}

#[test]
fn generics() {
    compare(
        "generics",
        quote!(key = "{id}"),
        quote! {
            pub unsafe fn generics<'a, T, const N: usize>(
                self: Arc<Self>,
                id: &'a T,
                tail: [impl Into<T>; N],
            ) -> Result<Vec<impl Iterator<Item = T> + 'a>, Error>
            where
                T: Display + Clone,
            {
                Ok(Vec::new())
            }
        },
    );
}

#[test]
fn never() {
    compare(
        "never",
        quote!(key = "leader", wait = "forever", on_error = |error| std::process::exit(code(&error))),
        quote! {
            async fn lead() -> ! {
                loop {
                    work().await;
                }
            }
        },
    );
}

#[test]
fn errors() {
    compare(
        "errors",
        quote!(kye = "stock:{sku}", ttl = 10, wait "5s", ttl = "10"),
        quote! {
            async fn purchase(sku: &str) -> Result<Receipt, ShopError> {
                shop::buy(sku).await
            }
        },
    );
}
