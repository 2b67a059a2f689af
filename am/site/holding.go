package site

import (
	"slices"

	"patchbay/am/maintenance"
)

// holding is what a site heeds beside its maintenance file.
type holding struct {
	lockdown *maintenance.Lockdown // nil for none
	held     []*maintenance.Drain  // by component
}

// same tells whether the same is heeded.
func (h holding) same(o holding) bool {
	return h.lockdown == o.lockdown && slices.EqualFunc(h.held, o.held, func(a, b *maintenance.Drain) bool {
		return a.Components[0] == b.Components[0] && a.Text == b.Text && a.Since.Equal(b.Since)
	})
}
