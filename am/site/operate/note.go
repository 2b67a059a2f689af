package operate

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/store"
)

// Note describes an action that an operator has carried out without an order, such as a change of
// a file. The action concerns no slice.
type Note struct {
	// Event is one of NoteEvents.
	Event    string `json:"event"`
	Text     string `json:"text,omitempty"`
	Operator string `json:"operator"`
}

// NoteEvents are the events that a Note may have.
var NoteEvents = []string{"drain", "undrain", "lockdown", "lockdown lifted", "maintenance", "maintenance lifted", "reload", "clock trusted", "move", "web"}

// maxNote is the largest length of a note's text in bytes. Longer texts, such as lists of
// components, are cut.
const maxNote = 2000

// Note adds an action to the journal. It fails with a *RefusedError or an error of the store.
func (d *Operations) Note(ctx context.Context, n Note) (done Result, err error) {
	if !slices.Contains(NoteEvents, n.Event) {
		return done, refuse("the journal has no event %.40q%s", n.Event, didYouMean(n.Event, NoteEvents))
	}
	if err := CheckOperator(n.Operator, ""); err != nil {
		return done, err
	}
	if strings.ContainsFunc(n.Text, unicode.IsControl) {
		return done, refuse("the text must be one line without control characters")
	}
	n.Text = display.Cut(n.Text, maxNote)
	err = d.commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		done = Result{At: v.Now().UTC()}
		cs.Log(am.JournalEntry{At: done.At, Event: n.Event, Operator: n.Operator, Text: n.Text})
		return cs, nil
	})
	return done, err
}
