package rule

// Rule is one reason for which something is refused, named as people would.
type Rule string
