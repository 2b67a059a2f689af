package operate

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchbay/am"
	"patchbay/am/store"
)

// Note is an operator's act that is about no slice and was done elsewhere, such as
// in a file: the journal tells of it.
type Note struct {
	// Event is one of Notes.
	Event    string `json:"event"`
	Text     string `json:"text,omitempty"`
	Operator string `json:"operator"`
}

// Notes are the acts that the journal can be told of.
var Notes = []string{"drain", "undrain", "lockdown", "lockdown lifted", "maintenance", "maintenance lifted", "reload", "clock believed", "move"}

// maxNote is how much of a note's text is kept, in bytes: names of components may
// be many.
const maxNote = 2000

// Note writes an act into the journal. Errors: as of Release.
func (d *Desk) Note(ctx context.Context, n Note) (done Done, err error) {
	if !slices.Contains(Notes, n.Event) {
		return done, refuse("the journal knows no act %.40q%s", n.Event, didYouMean(n.Event, Notes))
	}
	if err := check(n.Operator, ""); err != nil {
		return done, err
	}
	if strings.ContainsFunc(n.Text, unicode.IsControl) {
		return done, refuse("the text must be one line without control characters")
	}
	if len(n.Text) > maxNote {
		cut := maxNote
		for !utf8.RuneStart(n.Text[cut]) {
			cut--
		}
		n.Text = n.Text[:cut] + "..."
	}
	err = d.commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		done = Done{At: v.Now().UTC()}
		cs.Log(am.JournalEntry{At: done.At, Event: n.Event, Operator: n.Operator, Text: n.Text})
		return cs, nil
	})
	return done, err
}
