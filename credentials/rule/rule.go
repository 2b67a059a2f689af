package rule

// Rule is a requirement on the input, as a sentence for people. A refusal names the rule
// that the input breaks.
type Rule string
