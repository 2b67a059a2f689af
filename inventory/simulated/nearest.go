package simulated

import (
	"fmt"
	"strings"
)

// meant asks whether the nearest word was meant, or says which there are.
func meant(wrong string, have []string) string {
	wrong = strings.ToLower(wrong)
	best, least := "", max(2, len(wrong)/3+1)
	for _, h := range have {
		if len(wrong) > 2*len(h) {
			continue
		}
		if d := distance(wrong, h); d < least {
			best, least = h, d
		}
	}
	if best == "" {
		return "there are " + listed(have)
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// distance counts the letters to insert, drop, replace or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

func listed(words []string) string { return strings.Join(words, ", ") }
