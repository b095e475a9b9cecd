//! pure: the right to everything that a pattern may match, now or later: whoever may not mirror a topic by name must not get it by
//! a pattern.

use super::{Access, Authorizer};
use crate::rpc::Refusal;
use twinlog_proto::security::codes::{Operation, ResourceType};

impl Access<'_> {
    /// ALTER_CONFIGS on every topic that `pattern` may match: on all topics that begin as the pattern does, whether they exist or
    /// not.
    ///
    /// # Errors
    /// When the caller lacks it.
    pub(super) fn need_topics_matching(&self, pattern: &str) -> Result<(), Refusal> {
        let prefix = literal_prefix(pattern);
        let (operation, kind) = (Operation::AlterConfigs, ResourceType::Topic);
        #[cfg(test)]
        self.asked.borrow_mut().push((operation, kind));
        let allowed = match self.authorizer {
            Authorizer::None => true,
            Authorizer::Acl { super_users } => {
                self.acls.here().decide_all_beginning(super_users, self.caller, operation, kind, &prefix).is_allowed()
            }
        };
        if allowed {
            return Ok(());
        }
        let mut refusal = self.denied(operation, kind, if prefix.is_empty() { "*" } else { &prefix });
        let prefixed = if prefix.is_empty() { "" } else { " with --prefixed" };
        refusal.message.push_str(&format!("{prefixed}, for pattern {pattern:?} may match any topic that begins so"));
        Err(refusal)
    }
}

/// The text with which everything begins that the whole pattern matches; empty when that is not plain to see.
fn literal_prefix(pattern: &str) -> String {
    let mut prefix = String::new();
    if pattern.contains('|') {
        return prefix;
    }
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        let literal = match c {
            // Of a letter or digit after it this makes a class or a code; of anything else the sign itself.
            '\\' => match rest.next() {
                Some(sign) if !sign.is_ascii_alphanumeric() => sign,
                _ => break,
            },
            '.' | '[' | ']' | '(' | ')' | '{' | '}' | '^' | '$' | '*' | '+' | '?' => break,
            plain => plain,
        };
        // What may be absent is no part of every match.
        if matches!(rest.peek(), Some('*' | '?' | '{')) {
            break;
        }
        prefix.push(literal);
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_only_what_every_match_begins_with() {
        for (pattern, prefix) in [
            ("orders", "orders"),
            ("orders-.*", "orders-"),
            ("orders\\..*", "orders."),
            ("orders+", "orders"),
            ("orders?", "order"),
            ("orders*", "order"),
            ("orders{0,2}", "order"),
            ("orders\\.*x", "orders"),
            ("a|b", ""),
            ("team-(a|b)", ""),
            ("team-(a)", "team-"),
            ("(?i)orders", ""),
            ("^orders", ""),
            ("\\dorders", ""),
            ("o\\x72", "o"),
            (".*", ""),
            ("", ""),
        ] {
            assert_eq!(literal_prefix(pattern), prefix, "{pattern}");
        }
    }
}
