//! `#[axum::debug_handler]`, above and below: it copies the whole function with our attribute.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::*;

#[derive(Debug)]
enum ShopError {
    SoldOut,
    Busy,
    Lock,
}

impl From<LockError> for ShopError {
    fn from(error: LockError) -> Self {
        if error.is_busy() { Self::Busy } else { Self::Lock }
    }
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::SoldOut => StatusCode::GONE,
            Self::Busy => StatusCode::CONFLICT,
            Self::Lock => StatusCode::SERVICE_UNAVAILABLE,
        };
        status.into_response()
    }
}

#[derive(Clone)]
struct Shop {
    tenant: String,
    locks: LockManager,
}

/// The handler's answer through a router.
async fn answer(router: Router<Shop>, path: &str) -> Outcome<StatusCode> {
    let shop = Shop { tenant: "acme".to_owned(), locks: managers()?.0.clone() };
    let mut request = Request::new(Body::from("7"));
    *request.method_mut() = axum::http::Method::POST;
    *request.uri_mut() = axum::http::Uri::try_from(path).unwrap_or_default();
    request.headers_mut().insert("content-type", axum::http::HeaderValue::from_static("application/json"));
    let response = TowerToHyperService::new(router.with_state(shop)).call(request).await;
    Ok(response.map_or(StatusCode::INTERNAL_SERVER_ERROR, |response| response.status()))
}

/// The handler's answer, and its answer while another caller holds the lock.
async fn serves(handler: axum::routing::MethodRouter<Shop>, key: &str) -> Outcome {
    let router = Router::new().route("/{sku}", handler);
    assert_eq!(locked(key, answer(router.clone(), "/a:b")).await??, StatusCode::OK);
    assert_eq!(locked(key, answer(router.clone(), "/none")).await??, StatusCode::GONE);
    let guard = managers()?.1.lock(key).try_acquire().await?;
    assert_eq!(answer(router, "/a:b").await?, StatusCode::CONFLICT);
    guard.release().await?;
    Ok(())
}

mod handler {
    use super::*;

    #[distributed_lock(key = "web:above:{sku}")]
    #[axum::debug_handler(state = Shop)]
    async fn above(Path(sku): Path<String>) -> Result<String, ShopError> {
        held("web:above:a%3Ab").await?;
        Ok(sku)
    }

    #[axum::debug_handler(state = Shop)]
    #[distributed_lock(key = "web:below:{sku}")]
    async fn below(Path(sku): Path<String>) -> Result<String, ShopError> {
        held("web:below:a%3Ab").await?;
        Ok(sku)
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        let router = Router::new().route("/above/{sku}", post(above)).route("/below/{sku}", post(below));
        for (key, path) in [("web:above:a%3Ab", "/above/a:b"), ("web:below:a%3Ab", "/below/a:b")] {
            assert_eq!(locked(key, answer(router.clone(), path)).await??, StatusCode::OK);
            let guard = managers()?.1.lock(key).try_acquire().await?;
            assert_eq!(answer(router.clone(), path).await?, StatusCode::CONFLICT);
            guard.release().await?;
        }
        Ok(())
    }
}

mod every_extractor {
    use super::*;

    #[distributed_lock(key = "web:all:above:{shop.tenant}:{quantity}", manager = shop.locks, guard = lock)]
    #[axum::debug_handler]
    async fn above(
        State(shop): State<Shop>,
        Path(sku): Path<String>,
        Json(quantity): Json<u32>,
    ) -> Result<Json<u32>, ShopError> {
        held("web:all:above:acme:7").await?;
        assert_eq!(lock.key(), format!("web:all:above:{}:7", shop.tenant));
        if sku == "none" {
            return Err(ShopError::SoldOut);
        }
        Ok(Json(quantity))
    }

    #[axum::debug_handler]
    #[distributed_lock(key = "web:all:below:{shop.tenant}:{quantity}", manager = shop.locks)]
    async fn below(
        State(shop): State<Shop>,
        Path(sku): Path<String>,
        Json(quantity): Json<u32>,
    ) -> Result<Json<u32>, ShopError> {
        held(&format!("web:all:below:{}:7", shop.tenant)).await?;
        if sku == "none" {
            return Err(ShopError::SoldOut);
        }
        Ok(Json(quantity))
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        serves(post(above), "web:all:above:acme:7").await?;
        serves(post(below), "web:all:below:acme:7").await
    }
}

mod opaque_response {
    use super::*;

    #[distributed_lock(key = "web:impl:above:{sku}", on_error = |error| Err(ShopError::from(error)))]
    #[axum::debug_handler(state = Shop)]
    async fn above(Path(sku): Path<String>) -> Result<impl IntoResponse, ShopError> {
        held("web:impl:above:a").await?;
        Ok((StatusCode::CREATED, sku))
    }

    #[axum::debug_handler(state = Shop)]
    #[distributed_lock(key = "web:impl:below:{sku}", on_error = |error| Err(ShopError::from(error)))]
    async fn below(Path(sku): Path<String>) -> Result<impl IntoResponse, ShopError> {
        held("web:impl:below:a").await?;
        Ok((StatusCode::CREATED, sku))
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        let router = Router::new().route("/above/{sku}", post(above)).route("/below/{sku}", post(below));
        assert_eq!(
            locked("web:impl:above:a", answer(router.clone(), "/above/a")).await??,
            StatusCode::CREATED
        );
        assert_eq!(locked("web:impl:below:a", answer(router, "/below/a")).await??, StatusCode::CREATED);
        Ok(())
    }
}

mod three_attributes {
    use super::*;

    #[distributed_lock(key = "web:three:top:{sku}")]
    #[tracing::instrument(skip_all, err(Debug))]
    #[axum::debug_handler(state = Shop)]
    async fn top(Path(sku): Path<String>) -> Result<String, ShopError> {
        held("web:three:top:a").await?;
        Ok(sku)
    }

    #[axum::debug_handler(state = Shop)]
    #[tracing::instrument(skip_all, err(Debug))]
    #[distributed_lock(key = "web:three:bottom:{sku}")]
    async fn bottom(Path(sku): Path<String>) -> Result<String, ShopError> {
        held("web:three:bottom:a").await?;
        Ok(sku)
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        let router = Router::new().route("/top/{sku}", post(top)).route("/bottom/{sku}", post(bottom));
        assert_eq!(locked("web:three:top:a", answer(router.clone(), "/top/a")).await??, StatusCode::OK);
        assert_eq!(locked("web:three:bottom:a", answer(router, "/bottom/a")).await??, StatusCode::OK);
        Ok(())
    }
}
