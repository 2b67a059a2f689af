package local

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
		return "there are " + strings.Join(have, ", ")
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// distance counts the letters to insert, drop or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left, corner := i+1, i
		for j := range len(b) {
			d := corner
			if a[i] != b[j] {
				d = 1 + min(corner, row[j+1], left)
			}
			corner, row[j], left = row[j+1], left, d
		}
		row[len(b)] = left
	}
	return row[len(b)]
}
