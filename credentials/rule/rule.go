package rule

// Rule is one reason for a refusal, in words for people.
type Rule string
