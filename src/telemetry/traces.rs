//! Spans for whoever collects traces: a request, and within it `identify`, `fast`, `durable`,
//! `upstream` and `store`.
//!
//! They are made everywhere and cost next to nothing unless somebody collects them, which takes the
//! feature `otel` and `traces.endpoint`.

use tracing::Span;

use super::trace_context::TraceContext;

/// A step of handling a request, as a span below the one that is entered.
macro_rules! step {
    ($name:literal) => {
        tracing::info_span!(target: "oncegate::trace", $name)
    };
}
pub(crate) use step;

/// The span of a whole request; its parent is asked for only if somebody collects it.
pub fn request(route: &str, parent: impl FnOnce() -> Option<TraceContext>) -> Span {
    let outcome = tracing::field::Empty;
    let span = tracing::info_span!(target: "oncegate::trace", "request", otel.kind = "server", route, outcome);
    if !span.is_disabled()
        && let Some(parent) = parent()
    {
        collect::set_parent(&span, parent);
    }
    span
}

/// The step that we are in, for those who come after us; None: nobody collects it.
pub fn current() -> Option<TraceContext> {
    collect::current()
}

pub use collect::{Collecting, start};

#[cfg(not(feature = "otel"))]
mod collect {
    use super::{Span, TraceContext};

    /// Nothing is collected in this build.
    pub struct Collecting;

    pub fn start(_: &str, _: u32) -> Result<Collecting, String> {
        Err("this build collects no traces: build it with --features otel".into())
    }

    pub fn set_parent(_: &Span, _: TraceContext) {}

    pub fn current() -> Option<TraceContext> {
        None
    }
}

#[cfg(feature = "otel")]
mod collect {
    use opentelemetry::trace::{
        SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
    };
    use opentelemetry::{Context, KeyValue};
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
    use tracing_opentelemetry::OpenTelemetrySpanExt;
    use tracing_subscriber::Layer;
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;

    use super::{Span, TraceContext};
    use crate::telemetry::logs;

    /// Dropping it sends what is left.
    pub struct Collecting(SdkTracerProvider);

    impl Drop for Collecting {
        fn drop(&mut self) {
            if let Err(error) = self.0.shutdown() {
                tracing::warn!(%error, "the last traces could not be sent");
            }
        }
    }

    /// Log lines as ever, and spans to the collector. `percent` of the traces that begin here are
    /// recorded, and those that a caller records.
    pub fn start(endpoint: &str, percent: u32) -> Result<Collecting, String> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(endpoint)
            .build()
            .map_err(|error| format!("traces cannot be sent: {error}"))?;
        let ratio = Sampler::TraceIdRatioBased(f64::from(percent) / 100.0);
        let about = [KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
        let about = Resource::builder().with_service_name("oncegate").with_attributes(about);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(ratio)))
            .with_resource(about.build())
            .build();
        let spans = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("oncegate"))
            .with_location(false)
            .with_threads(false)
            .with_filter(Targets::new().with_target("oncegate::trace", tracing::Level::INFO));
        let all = tracing_subscriber::registry().with(spans).with(logs::lines());
        all.try_init().map_err(|error| error.to_string())?;
        Ok(Collecting(provider))
    }

    pub fn set_parent(span: &Span, parent: TraceContext) {
        let (trace, parent, flags) = parent.parts();
        let context = SpanContext::new(
            TraceId::from(trace),
            SpanId::from(parent),
            TraceFlags::new(flags),
            true,
            TraceState::default(),
        );
        let _ = span.set_parent(Context::new().with_remote_span_context(context));
    }

    pub fn current() -> Option<TraceContext> {
        let span = Span::current();
        if span.is_disabled() {
            return None;
        }
        let context = span.context();
        let span = context.span();
        let context = span.span_context();
        let (trace, span) = (context.trace_id(), context.span_id());
        let (trace, span) =
            (u128::from_be_bytes(trace.to_bytes()), u64::from_be_bytes(span.to_bytes()));
        context.is_valid().then(|| TraceContext::of(trace, span, context.trace_flags().to_u8()))
    }
}
