//! The upstream's interim answers (102, 103 …) go to the client that waits.

use http::{Extensions, Request, StatusCode};

use crate::http::Body;
use crate::http::server::Interim;

/// Where this request's interim answers go, taken out of what the server attached to it.
pub fn way_back(extensions: &mut Extensions) -> Option<Interim> {
    extensions.remove::<Interim>()
}

pub fn pass_on(request: &mut Request<Body>, way_back: Option<Interim>) {
    let Some(client) = way_back else { return };
    hyper::ext::on_informational(request, move |interim| {
        // Whether to go on is settled between two neighbours: the server says 100 by itself.
        if interim.status() != StatusCode::CONTINUE {
            client.send(interim.status(), interim.headers());
        }
    });
}
