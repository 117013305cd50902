//! The bodies of SASL frames [5.3.3].

use bytes::BytesMut;

use crate::composites::{SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse};
use crate::decode::{DecodeError, Reader};
use crate::descriptor;
use crate::encode::Encode;
use crate::frame::{FrameKind, begin_frame, end_frame};

/// The body of a SASL frame [5.3.3]. Responses may contain passwords, so `Debug` prints them as `***`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslFrame {
    /// [5.3.3.1]
    Mechanisms(SaslMechanisms),
    /// [5.3.3.2]
    Init(SaslInit),
    /// [5.3.3.3]
    Challenge(SaslChallenge),
    /// [5.3.3.4]
    Response(SaslResponse),
    /// [5.3.3.5]
    Outcome(SaslOutcome),
}

impl SaslFrame {
    /// Reads the whole body of a SASL frame.
    ///
    /// # Errors
    /// The descriptor is not a SASL frame, a field is malformed, or bytes follow.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let reader = &mut reader;
        let frame = match reader.read_descriptor()? {
            descriptor::SASL_MECHANISMS => Self::Mechanisms(SaslMechanisms::decode_fields(reader)?),
            descriptor::SASL_INIT => Self::Init(SaslInit::decode_fields(reader)?),
            descriptor::SASL_CHALLENGE => Self::Challenge(SaslChallenge::decode_fields(reader)?),
            descriptor::SASL_RESPONSE => Self::Response(SaslResponse::decode_fields(reader)?),
            descriptor::SASL_OUTCOME => Self::Outcome(SaslOutcome::decode_fields(reader)?),
            _ => return Err(DecodeError::UnknownDescriptor { offset: 0 }),
        };
        reader.expect_end()?;
        Ok(frame)
    }
}

impl Encode for SaslFrame {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Mechanisms(mechanisms) => mechanisms.encode(out),
            Self::Init(init) => init.encode(out),
            Self::Challenge(challenge) => challenge.encode(out),
            Self::Response(response) => response.encode(out),
            Self::Outcome(outcome) => outcome.encode(out),
        }
    }
}

/// Appends a SASL frame.
pub fn put_sasl_frame<S: Encode + ?Sized>(out: &mut BytesMut, body: &S) {
    let start = begin_frame(out, FrameKind::Sasl, 0);
    body.encode(out);
    end_frame(out, start, 0);
}
