package display

import "strings"

// Suggest returns the known word that is most similar to text, or "" if no word is similar
// enough: one letter, or up to a third of text's letters, may differ. Upper and lower case do
// not matter.
func Suggest(text string, known []string) string {
	return SuggestWithin(text, known, max(1, len(text)/3))
}

// SuggestWithin is Suggest, except that at most that many letters may differ.
func SuggestWithin(text string, known []string, letters int) string {
	best, least := "", letters+1
	for _, h := range known {
		if strings.EqualFold(text, h) {
			return h
		}
		if d := len(text) - len(h); len(text) < 2 || d >= least || -d >= least {
			continue
		}
		if d := distance(text, h); d < least {
			best, least = h, d
		}
	}
	return best
}

// distance counts letters to insert, drop, replace or swap with a neighbour.
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
