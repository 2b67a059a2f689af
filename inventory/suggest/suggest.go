// Package suggest finds the known word that a misspelled word probably stands for, for
// hints in messages.
// It has no dependencies, so that small programs can use it.
package suggest

import "strings"

// Word returns the word of have that is most similar to want, or "" if no word is similar
// enough: one letter, or up to a third of want's letters, may differ. Upper and lower case
// do not matter.
func Word(want string, have []string) string {
	best, least := "", max(2, len(want)/3+1)
	for _, h := range have {
		if strings.EqualFold(want, h) {
			return h
		}
		if d := len(want) - len(h); len(want) < 2 || d >= least || -d >= least {
			continue
		}
		if d := distance(want, h); d < least {
			best, least = h, d
		}
	}
	return best
}

// distance returns the number of letters to insert, drop, replace or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	// row[j] is the distance from a[:i] to b[:j]. last and before are the rows of a[:i-1]
	// and a[:i-2].
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
