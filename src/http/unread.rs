//! Bodies that nobody read to their end.
//!
//! When a request's body is dropped, the server reads a chunked one to its end before it goes on, however long its
//! sender makes it. A body that is still held when the answer is written makes the connection close instead. So the
//! resource only borrows the body, whichever it is and whether it reads or not, and the answer holds it.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::HttpMessage as _;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest};
use actix_web::error::PayloadError;
use bytes::Bytes;
use futures_util::Stream;

/// A request's body, as whoever answers sees it.
struct Borrowed(Rc<RefCell<Payload>>);

/// What is left of a request's body; none if it came without one.
pub(crate) struct Unread(Option<Rc<RefCell<Payload>>>);

/// An answer that holds on to what is left of its request.
struct Holding {
    answer: BoxBody,
    #[expect(dead_code, reason = "it only has to stay alive")]
    unread: Rc<RefCell<Payload>>,
}

/// Keeps a request's body, and leaves the request one that is only borrowed.
pub(crate) fn keep(request: &mut ServiceRequest) -> Unread {
    match request.take_payload() {
        Payload::None => Unread(None),
        payload @ (Payload::H1 { .. } | Payload::Stream { .. }) => {
            let payload = Rc::new(RefCell::new(payload));
            request.set_payload(Payload::Stream { payload: Box::pin(Borrowed(Rc::clone(&payload))) });
            Unread(Some(payload))
        }
    }
}

impl Unread {
    /// The answer, holding on to what is left until it is written.
    pub(crate) fn held_by(self, answer: BoxBody) -> BoxBody {
        match self.0 {
            None => answer,
            Some(unread) => Holding { answer, unread }.boxed(),
        }
    }
}

impl Stream for Borrowed {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_next(context)
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
