package audit

import (
	"bytes"
	"encoding/json"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/store"
)

const (
	eventStart  = "start"
	eventTold   = "told"
	eventCall   = "call"
	eventAct    = "act"
	eventChange = "change"
	eventWork   = "work"
	eventHolds  = "holds"
	eventGone   = "gone"
	eventAlive  = "alive"
	eventOpen   = "open"
	eventLost   = "lost"
	eventGap    = "gap"
	eventStop   = "stop"
)

// timeLayout writes all times with the same length, so that peek can find them by
// position.
const timeLayout = "2006-01-02T15:04:05.000Z"

// maxOutput limits one text of a line, in bytes.
const maxOutput = 1 << 10

// Line is one line of any event. Fields that the event does not have are omitted.
type Line struct {
	At    string `json:"at"`
	Event string `json:"event"`

	// The following are for a call. ID is its request id.
	ID          string   `json:"id,omitempty"`
	Service     string   `json:"service,omitempty"`
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

	// The following are for an act, a change or work. Request is the id of the call.
	What     string `json:"what,omitempty"`
	Operator string `json:"operator,omitempty"`
	Text     string `json:"text,omitempty"`

	// The following are for holds. Request is the id of the call that reserved the sliver.
	Sliver    string   `json:"sliver,omitempty"`
	User      string   `json:"user,omitempty"`
	Component string   `json:"component,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Endpoints []string `json:"endpoints,omitempty"`
	Outside   []string `json:"outside,omitempty"`
	Request   string   `json:"request,omitempty"`
	// Again means that the line repeats an earlier line, at a start or in a new file. Since
	// is the time of the first such line, if it is known.
	Again bool   `json:"again,omitempty"`
	Since string `json:"since,omitempty"`

	// The following are for a start.
	Site string `json:"site,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Lost is the number of lines, or of changes, that were not written.
	Lost int `json:"lost,omitempty"`
	// Next is the position in the changes of the store after this line.
	Next string `json:"next,omitempty"`

	// The following are in lines of a program of schema 4; see end.
	Doors   []string   `json:"doors,omitempty"` // Endpoints
	Journal []string   `json:"journal,omitempty"`
	Settled *store.Rev `json:"settled,omitempty"`
	Seen    store.Rev  `json:"seen,omitempty"`
}

// encode returns the line with its line break, in ASCII.
func (l *Line) encode() []byte {
	l.Output, l.Text = display.Cut(l.Output, maxOutput), display.Cut(l.Text, maxOutput)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil { // impossible: it holds only strings and numbers
		panic(err)
	}
	return am.ASCII(b.Bytes())
}

// time returns zero if At is invalid.
func (l *Line) time() time.Time {
	t, err := time.Parse(timeLayout, l.At)
	if err != nil {
		return time.Time{}
	}
	return t
}

// peek does not parse the rest of the line. ok is false for a line that does not begin like
// a line of an audit.
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

// decode parses a line. It returns false for a line that a crash left incomplete.
func decode(text []byte) (Line, bool) {
	var l Line
	if _, _, ok := peek(text); !ok || json.Unmarshal(text, &l) != nil {
		return Line{}, false
	}
	l.Endpoints, l.Doors = append(l.Endpoints, l.Doors...), nil
	return l, !l.time().IsZero()
}
