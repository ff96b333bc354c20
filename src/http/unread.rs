//! Bodies that nobody read to their end.
//!
//! When a request's body is dropped, the server reads a chunked one to its end before it goes on, however long its
//! sender makes it. A body that is still held when the answer is written makes the connection close instead.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::Payload;
use bytes::Bytes;

/// An answer that holds on to what is left of its request.
struct Holding {
    answer: BoxBody,
    #[expect(dead_code, reason = "it only has to stay alive")]
    unread: Payload,
}

/// The answer, holding on to what is left of its request until it is written.
pub(crate) fn hold(answer: BoxBody, unread: Payload) -> BoxBody {
    match unread {
        Payload::None => answer,
        Payload::H1 { .. } | Payload::Stream { .. } => Holding { answer, unread }.boxed(),
    }
}

impl MessageBody for Holding {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.answer.size()
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        self.get_mut().answer.as_pin_mut().poll_next(context)
    }
}
