// Package rule names every rule by which a document, a certificate or a credential
// is refused.
//
//	if rule.Digest.Broken(sum != said) { … refuse, naming rule.Digest … }
//
// In every program Broken is the condition itself; there is nothing that could
// switch a rule off. Only a test built with the tag attack has Without, and with
// it shows of each attack that without the one rule it would have been accepted,
// and so that it is refused for the right reason. What such a test's reader does
// where a rule is off, such as to follow HMAC, stands in the files off.go, which
// no program is built of.
//
// # Decisions
//
//   - switches: a test build can switch off a single rule, which shows that each attack is refused
//     for the right reason: [Rule].
package rule
