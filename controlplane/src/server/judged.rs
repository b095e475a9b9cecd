//! A request together with what its caller may have done of it and be told. `dispatch.rs` gets no request without one, and answers
//! none without it: a handler that is written later cannot pass by the rights.

use crate::mirror::catalog::Catalog;
use crate::rpc::authorize::{Guard, Who};
use std::ops::Deref;
use std::rc::Rc;

/// A judged request; seen through, it is what the caller may have done.
pub(super) struct Judged<R> {
    request: R,
    permitted: Option<R>,
    version: i16,
    who: Who,
    /// The rights are those of one moment, also when a source is asked in between.
    catalog: Rc<Catalog>,
}

impl<R: Guard> Judged<R> {
    /// Judges a request.
    ///
    /// # Errors
    /// The answer to a caller who may have nothing of it done.
    pub(super) fn new(request: R, version: i16, who: &Who, catalog: Rc<Catalog>) -> Result<Rc<Self>, R::Response> {
        if let Some(response) = request.refuse(version, &who.access(&catalog), &catalog) {
            return Err(response);
        }
        let permitted = request.permitted(&who.access(&catalog));
        Ok(Rc::new(Self { request, permitted, version, who: who.clone(), catalog }))
    }

    /// The answer as the caller may have it.
    pub(super) fn finish(&self, mut response: R::Response) -> R::Response {
        self.request.finish(self.version, &self.who.access(&self.catalog), &mut response);
        response
    }
}

impl<R> Deref for Judged<R> {
    type Target = R;

    fn deref(&self) -> &R {
        self.permitted.as_ref().unwrap_or(&self.request)
    }
}
