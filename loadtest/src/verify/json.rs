//! A record's value to readings, as the truth has them: our own reading of the JSON, on the shapes that `produce` makes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::devices::Devices;
use super::fold::Fold;

/// One element of a record, before judgement.
#[derive(Clone, Debug, Default)]
pub struct Element {
    pub device: Option<u32>,
    pub time_ms: Option<i64>,
    pub n_fields: u32,
    pub info: Fold,
    /// Sum over the tags, so that their order does not matter; 0 where there are none.
    pub tags: u64,
}

/// Reads a value into `out`; an error means that nothing in it can be read.
pub fn elements(
    value: &[u8],
    tags: &[String],
    devices: &mut Devices,
    out: &mut Vec<Element>,
) -> Result<(), serde_json::Error> {
    out.clear();
    let mut reader = serde_json::Deserializer::from_slice(value);
    reader.deserialize_map(RecordVisitor { tags, devices, out })?;
    reader.end()
}

/// `{"readings": [...]}`, or one reading.
struct RecordVisitor<'a> {
    tags: &'a [String],
    devices: &'a mut Devices,
    out: &'a mut Vec<Element>,
}

impl<'de> Visitor<'de> for RecordVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reading, or an object with readings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut element = Element::default();
        let mut exploded = false;
        while let Some(Name(name)) = map.next_key()? {
            if name == "readings" {
                exploded = true;
                map.next_value_seed(Elements { tags: self.tags, devices: &mut *self.devices, out: &mut *self.out })?;
            } else {
                element.take(&name, self.tags, self.devices, &mut map)?;
            }
        }
        if !exploded {
            self.out.push(element);
        }
        Ok(())
    }
}

struct Elements<'a> {
    tags: &'a [String],
    devices: &'a mut Devices,
    out: &'a mut Vec<Element>,
}

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of readings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(element) = seq.next_element_seed(OneElement { tags: self.tags, devices: &mut *self.devices })? {
            self.out.push(element);
        }
        Ok(())
    }
}

struct OneElement<'a> {
    tags: &'a [String],
    devices: &'a mut Devices,
}

impl<'de> DeserializeSeed<'de> for OneElement<'_> {
    type Value = Element;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Element, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneElement<'_> {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reading")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Element, A::Error> {
        let mut element = Element::default();
        while let Some(Name(name)) = map.next_key()? {
            element.take(&name, self.tags, self.devices, &mut map)?;
        }
        Ok(element)
    }
}

impl Element {
    /// One member of a reading.
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        tags: &[String],
        devices: &mut Devices,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match name {
            "deviceid" => {
                let id: Option<Name<'de>> = map.next_value()?;
                self.device = id.map(|Name(id)| devices.number(&id));
            }
            "ts" => self.time_ms = map.next_value()?,
            _ if tags.iter().any(|t| t == name) => {
                let mut tag = Fold::default();
                tag.name(name);
                if map.next_value_seed(Value(&mut tag))? != Kind::Null {
                    self.tags = self.tags.wrapping_add(tag.digest());
                }
            }
            _ => {
                // A null field is left out, so its name must not count before the value is known.
                let before = self.info.clone();
                self.info.name(name);
                match map.next_value_seed(Value(&mut self.info))? {
                    Kind::Null => self.info = before,
                    Kind::Other => self.n_fields += 1,
                }
            }
        }
        Ok(())
    }
}

/// A string that is borrowed from the input where it has no escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> de::Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        d.deserialize_str(Text)
    }
}

#[derive(PartialEq)]
enum Kind {
    Null,
    Other,
}

/// Folds any JSON value.
struct Value<'a>(&'a mut Fold);

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = Kind;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Kind, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        self.0.null();
        Ok(Kind::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Kind, E> {
        self.0.boolean(value);
        Ok(Kind::Other)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Kind, E> {
        self.0.integer(value);
        Ok(Kind::Other)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Kind, E> {
        match i64::try_from(value) {
            Ok(value) => self.0.integer(value),
            // Past Int64 only a double is left.
            Err(_) => self.0.double(value as f64),
        }
        Ok(Kind::Other)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Kind, E> {
        self.0.double(value);
        Ok(Kind::Other)
    }

    fn visit_str<E>(self, value: &str) -> Result<Kind, E> {
        self.0.text(value);
        Ok(Kind::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Kind, A::Error> {
        self.0.open_array();
        while seq.next_element_seed(Value(&mut *self.0))?.is_some() {}
        self.0.close();
        Ok(Kind::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kind, A::Error> {
        self.0.open_document();
        while let Some(Name(name)) = map.next_key()? {
            self.0.name(&name);
            map.next_value_seed(Value(&mut *self.0))?;
        }
        self.0.close();
        Ok(Kind::Other)
    }
}
