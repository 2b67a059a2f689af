// Package rule names every rule by which a document, a certificate or a credential
// is refused.
//
//	if rule.Digest.Broken(sum != want) { … refuse, naming rule.Digest … }
//
// In every program Broken returns its argument, and no rule can be switched off. Only tests
// built with the tag attack have the function Without. They switch off one rule and show that
// the attack then succeeds. So that rule is the reason for the refusal. The files off.go
// contain the code that accepts such input, for example HMAC signatures. No program is built
// from these files.
//
// # Decisions
//
//   - switches: a test build can switch off a single rule, which shows that each attack is refused
//     for the right reason: [Rule].
package rule
