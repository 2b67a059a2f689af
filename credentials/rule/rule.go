package rule

// Rule is a requirement on the input, as a sentence. A refusal names the broken rule.
type Rule string
