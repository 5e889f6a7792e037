//! What an S3 server answered, in words for people: without the request, its address, its retries and the XML
//! around the one sentence that matters.

use std::error::Error as StdError;

/// The error in a sentence. What is not an answer of such a server, or the lack of one, stays as it is.
pub(super) fn said(error: &object_store::Error) -> String {
    let text = error.to_string();
    if let Some(code) = between(&text, "<Code>", "</Code>") {
        let message = between(&text, "<Message>", "</Message>").filter(|message| !message.is_empty());
        let message = message.map(|message| format!(": {message}")).unwrap_or_default();
        return format!("the store says {code}{message}{}", what_to_check(code));
    }
    if text.contains("HTTP error") {
        return format!("the store does not answer: {}", deepest(error));
    }
    text
}

fn what_to_check(code: &str) -> &'static str {
    match code {
        "SignatureDoesNotMatch" | "InvalidAccessKeyId" | "AccessDenied" => {
            " (is it the right S3_ACCESS_KEY and S3_SECRET_KEY, and may they use the bucket?)"
        }
        "NoSuchBucket" => " (S3_BUCKET names one that exists; CodeHub does not make it)",
        "AuthorizationHeaderMalformed" | "PermanentRedirect" => " (is it the right S3_REGION?)",
        "RequestTimeTooSkewed" => " (is this machine's clock right?)",
        _ => "",
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found.trim())
}

fn deepest(error: &dyn StdError) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(text: &str) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: text.into() }
    }

    #[test]
    fn an_answer_is_its_code_its_message_and_what_to_check() {
        let answer = "Error performing GET http://127.0.0.1:1/b/k in 2ms - Server returned non-2xx status code: \
             403 Forbidden: <?xml version=\"1.0\"?>\n<Error><Code>SignatureDoesNotMatch</Code><Message>The \
             signature is wrong.</Message><Resource>/b/k</Resource></Error>";
        assert_eq!(
            said(&s3(answer)),
            "the store says SignatureDoesNotMatch: The signature is wrong. (is it the right S3_ACCESS_KEY and \
             S3_SECRET_KEY, and may they use the bucket?)"
        );
        assert_eq!(said(&s3("<Error><Code>SlowDown</Code></Error>")), "the store says SlowDown");
    }

    #[test]
    fn no_answer_says_why_and_anything_else_stays() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        #[derive(Debug, thiserror::Error)]
        #[error("after 3 retries - HTTP error: client error (Connect)")]
        struct Sending(#[source] std::io::Error);
        let error = object_store::Error::Generic { store: "S3", source: Box::new(Sending(refused)) };
        assert_eq!(said(&error), "the store does not answer: connection refused");
        assert_eq!(said(&s3("something else")), "Generic S3 error: something else");
    }
}
