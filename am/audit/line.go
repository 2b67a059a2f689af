package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

// Events of lines.
const (
	eventStart = "start"
	eventTold  = "told"
	eventCall  = "call"
	eventAct   = "act"
	eventWork  = "work"
	eventHolds = "holds"
	eventGone  = "gone"
	eventAlive = "alive"
	eventOpen  = "open"
	eventLost  = "lost"
	eventStop  = "stop"
)

// timeLayout writes times of one length, so that lines can be told apart cheaply.
const timeLayout = "2006-01-02T15:04:05.000Z"

// maxOutput bounds one text of a line, in bytes.
const maxOutput = 1 << 10

// Line is one line, whatever its event. What an event has not is left out.
type Line struct {
	At    string `json:"at"`
	Event string `json:"event"`

	// Of a call. ID is its request id.
	ID          string   `json:"id,omitempty"`
	Method      string   `json:"method,omitempty"`
	API         int      `json:"api,omitempty"`
	Remote      string   `json:"remote,omitempty"`
	Times       int      `json:"times,omitempty"`
	From        string   `json:"from,omitempty"`
	Caller      string   `json:"caller,omitempty"`
	Speaker     string   `json:"speaker,omitempty"`
	Slice       string   `json:"slice,omitempty"`
	Slivers     int      `json:"slivers,omitempty"`
	Credentials []string `json:"credentials,omitempty"`
	Fault       bool     `json:"fault,omitempty"`
	Code        *int     `json:"code,omitempty"`
	Detail      *int     `json:"detail,omitempty"`
	Output      string   `json:"output,omitempty"`

	// Of an act, or of work.
	What     string `json:"what,omitempty"`
	Operator string `json:"operator,omitempty"`
	Text     string `json:"text,omitempty"`

	// Of what a sliver holds. Request is the id of the call that reserved it.
	Sliver    string   `json:"sliver,omitempty"`
	User      string   `json:"user,omitempty"`
	Component string   `json:"component,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Doors     []string `json:"doors,omitempty"`
	Outside   []string `json:"outside,omitempty"`
	Request   string   `json:"request,omitempty"`
	// Again says that it is told again, at a start or in a new file. Since is when it
	// was told first, if that is known.
	Again bool   `json:"again,omitempty"`
	Since string `json:"since,omitempty"`

	// Of a start.
	Site string `json:"site,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Lost counts lines that were not written.
	Lost int `json:"lost,omitempty"`

	// Recovered says that a crash has kept the line from being written in time.
	Recovered bool     `json:"recovered,omitempty"`
	Journal   []string `json:"journal,omitempty"`
	*Mark
}

// Mark is how far the lines before and this one cover the journal.
type Mark struct {
	Settled store.Rev `json:"settled"`
	Seen    store.Rev `json:"seen"`
}

// encode is the line with its end, in ASCII.
func (l *Line) encode() []byte {
	l.Output, l.Text = bounded(l.Output), bounded(l.Text)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil { // only strings and numbers: it cannot be
		panic(err)
	}
	return am.ASCII(b.Bytes())
}

// bounded cuts a text.
func bounded(s string) string {
	if len(s) <= maxOutput {
		return s
	}
	return strings.ToValidUTF8(s[:maxOutput], "") + "..."
}

// time is when the line was written.
func (l *Line) time() time.Time {
	t, err := time.Parse(timeLayout, l.At)
	if err != nil {
		return time.Time{}
	}
	return t
}

// peek tells the time and the event of a line without reading the rest; ok is
// false for a line that none of ours begins like.
func peek(line []byte) (at, event string, ok bool) {
	const before, between = `{"at":"`, `","event":"`
	rest, ok := bytes.CutPrefix(line, []byte(before))
	if !ok || len(rest) < len(timeLayout) {
		return "", "", false
	}
	at, rest = string(rest[:len(timeLayout)]), rest[len(timeLayout):]
	if rest, ok = bytes.CutPrefix(rest, []byte(between)); !ok {
		return "", "", false
	}
	name, _, ok := bytes.Cut(rest, []byte(`"`))
	return at, string(name), ok && len(name) < 20
}

// decode reads a line; false if it is none, for it was cut off by a crash.
func decode(text []byte) (Line, bool) {
	var l Line
	if _, _, ok := peek(text); !ok || json.Unmarshal(text, &l) != nil {
		return Line{}, false
	}
	return l, !l.time().IsZero()
}
