//! pure: ApiVersions: what this node answers, and that it speaks the mirror requests.

use twinlog_proto::api::{self, MIRROR_FEATURE, MIRROR_FEATURE_LEVEL};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};

/// The version from which on clients name their software.
const NAMED_FROM: i16 = 3;

/// The answer to a request at a version that is served.
#[must_use]
pub fn handle(request: &ApiVersionsRequest, version: i16, served: impl Fn(i16) -> bool) -> ApiVersionsResponse {
    let named = is_software_name(&request.client_software_name) && is_software_name(&request.client_software_version);
    if version >= NAMED_FROM && !named {
        return ApiVersionsResponse { error_code: ErrorCode::INVALID_REQUEST.0, ..ApiVersionsResponse::default() };
    }
    let row = |api: &api::Api| {
        let versions = api.served.clone().filter(|_| served(api.key))?;
        Some(ApiVersion { api_key: api.key, min_version: *versions.start(), max_version: *versions.end() })
    };
    ApiVersionsResponse {
        api_keys: api::APIS.iter().filter_map(row).collect(),
        supported_features: vec![SupportedFeatureKey {
            name: MIRROR_FEATURE.to_owned(),
            min_version: MIRROR_FEATURE_LEVEL,
            max_version: MIRROR_FEATURE_LEVEL,
        }],
        finalized_features_epoch: 0,
        finalized_features: vec![FinalizedFeatureKey {
            name: MIRROR_FEATURE.to_owned(),
            max_version_level: MIRROR_FEATURE_LEVEL,
            min_version_level: MIRROR_FEATURE_LEVEL,
        }],
        ..ApiVersionsResponse::default()
    }
}

/// The answer, at version 0, to a request at a version that is not served.
#[must_use]
pub fn unsupported() -> ApiVersionsResponse {
    let own = api::by_key(api::API_VERSIONS).and_then(|api| api.served.clone()).into_iter();
    ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION.0,
        api_keys: own
            .map(|versions| ApiVersion {
                api_key: api::API_VERSIONS,
                min_version: *versions.start(),
                max_version: *versions.end(),
            })
            .collect(),
        ..ApiVersionsResponse::default()
    }
}

/// `[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?`
fn is_software_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_names_itself_wrongly_is_told_so_from_version_3_on() {
        let odd = ApiVersionsRequest { client_software_name: "-x".into(), client_software_version: "1".into() };
        assert_eq!(handle(&odd, 3, |_| true).error_code, 42);
        assert_eq!(handle(&odd, 2, |_| true).error_code, 0);
    }

    #[test]
    fn only_what_is_served_is_shown_together_with_the_mirror_feature() {
        let fine = ApiVersionsRequest { client_software_name: "a".into(), client_software_version: "1.0".into() };
        let answer = handle(&fine, 4, |key| key == api::METADATA);
        assert_eq!(answer.api_keys.iter().map(|row| row.api_key).collect::<Vec<_>>(), [api::METADATA]);
        assert_eq!(answer.finalized_features[0].name, "mirror.version");
    }
}
