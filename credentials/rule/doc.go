// Package rule names every rule by which a document, a certificate or a credential
// is refused.
//
// TestMutants of package credentials removes each check of a rule in turn and shows that a test
// notices it. Almost always an attack succeeds then, so that rule is the reason for the refusal.
package rule
