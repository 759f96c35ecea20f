//! Whether a value is the same after it was encoded and decoded.
//!
//! `serde_json` writes several values as `null`: `None`, `()`, NaN and the infinities, and therefore
//! also `Some(None)`. When such a value is encoded again, its bytes are the same. So [`is_same`]
//! compares what a value tells its serializer, which tells these values apart.

use std::fmt::Display;

use serde_core::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// True if both values tell a serializer the same, in any order: each hash map has its own.
pub(super) fn is_same<T: Serialize>(one: &T, other: &T) -> bool {
    let told = |value: &T| {
        let mut trace = Trace::default();
        value.serialize(&mut trace).map(|()| trace.0)
    };
    matches!((told(one), told(other)), (Ok(one), Ok(other)) if has_same_bytes(&one, &other))
}

/// True for the same bytes in any order.
pub(super) fn has_same_bytes(one: &[u8], other: &[u8]) -> bool {
    let count = |bytes: &[u8]| {
        let mut counts = [0_usize; 256];
        for byte in bytes {
            if let Some(count) = counts.get_mut(usize::from(*byte)) {
                *count += 1;
            }
        }
        counts
    };
    one == other || one.len() == other.len() && count(one) == count(other)
}

/// The trace of a value: the bytes of its plain values, and a letter for each other part.
#[derive(Default)]
struct Trace(Vec<u8>);

impl Trace {
    fn letter(&mut self, letter: u8) {
        self.0.push(letter);
    }

    fn number(&mut self, letter: u8, bytes: &[u8]) {
        self.letter(letter);
        self.0.extend(bytes);
    }

    fn text(&mut self, letter: u8, text: &str) {
        self.number(letter, text.as_bytes());
    }
}

/// A value refuses to be serialized.
#[derive(Debug)]
struct Failed;

impl Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the value cannot be serialized")
    }
}

impl std::error::Error for Failed {}

impl ser::Error for Failed {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

macro_rules! numbers {
    ($($method:ident $ty:ty, $letter:literal;)*) => {
        $(fn $method(self, number: $ty) -> Result<(), Failed> {
            self.number($letter, &number.to_le_bytes());
            Ok(())
        })*
    };
}

impl Serializer for &mut Trace {
    type Ok = ();
    type Error = Failed;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    numbers!(
        serialize_i8 i8, b'i';
        serialize_i16 i16, b'i';
        serialize_i32 i32, b'i';
        serialize_i64 i64, b'i';
        serialize_i128 i128, b'i';
        serialize_u8 u8, b'u';
        serialize_u16 u16, b'u';
        serialize_u32 u32, b'u';
        serialize_u64 u64, b'u';
        serialize_u128 u128, b'u';
        serialize_f32 f32, b'f';
        serialize_f64 f64, b'f';
    );

    fn serialize_bool(self, is_so: bool) -> Result<(), Failed> {
        self.number(b'?', &[u8::from(is_so)]);
        Ok(())
    }

    fn serialize_char(self, letter: char) -> Result<(), Failed> {
        self.text(b'c', letter.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Result<(), Failed> {
        self.text(b't', text);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Failed> {
        self.number(b'b', bytes);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Failed> {
        self.letter(b'-');
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Failed> {
        self.letter(b'+');
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Failed> {
        self.letter(b'(');
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Failed> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<(), Failed> {
        self.text(b'v', name);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Failed> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        value: &T,
    ) -> Result<(), Failed> {
        self.text(b'v', name);
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Failed> {
        self.letter(b'[');
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Failed> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Failed> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self, Failed> {
        self.text(b'v', name);
        self.serialize_seq(None)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Failed> {
        self.letter(b'{');
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Failed> {
        self.serialize_map(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self, Failed> {
        self.text(b'v', name);
        self.serialize_map(None)
    }
}

macro_rules! lists {
    ($($of:ident $method:ident)*) => {
        $(impl $of for &mut Trace {
            type Ok = ();
            type Error = Failed;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Failed> {
                Ok(())
            }
        })*
    };
}

lists! {
    SerializeSeq serialize_element
    SerializeTuple serialize_element
    SerializeTupleStruct serialize_field
    SerializeTupleVariant serialize_field
}

macro_rules! structs {
    ($($of:ident)*) => {
        $(impl $of for &mut Trace {
            type Ok = ();
            type Error = Failed;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Failed> {
                self.text(b'.', name);
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Failed> {
                Ok(())
            }
        })*
    };
}

structs! { SerializeStruct SerializeStructVariant }

impl SerializeMap for &mut Trace {
    type Ok = ();
    type Error = Failed;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failed> {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Failed> {
        Ok(())
    }
}
