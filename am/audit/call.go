package audit

import (
	"os/user"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// Call is a call that may have changed something, when it is known what came of it.
type Call struct {
	// ID is the request id.
	ID     string
	Method string
	// API is the version of the AM API.
	API    int
	Remote string // address and port
	// Times is how many calls the line counts, and From where they came from, if
	// nobody vouches for the callers; it is the line of the latest.
	Times  int
	From   string
	Caller urn.URN
	// Speaker is the tool that spoke for the caller; zero if none did.
	Speaker urn.URN
	Slice   urn.URN
	// Slivers counts those that the call was about.
	Slivers int
	// Credentials are SHA-256 sums.
	Credentials []string
	// Code is the geni_code, or of a Fault the fault's code.
	Code   int
	Detail am.Detail
	Fault  bool
	Output string
}

func (c *Call) line(at time.Time) *Line {
	l := &Line{
		At: at.UTC().Format(timeLayout), Event: eventCall, ID: c.ID, Method: c.Method, API: c.API, Remote: c.Remote, Times: c.Times, From: c.From,
		Caller: c.Caller.String(), Speaker: c.Speaker.String(), Slice: c.Slice.String(), Slivers: c.Slivers,
		Credentials: c.Credentials, Code: &c.Code, Fault: c.Fault, Output: c.Output,
	}
	if c.Detail != am.NoDetail {
		detail := int(c.Detail)
		l.Detail = &detail
	}
	return l
}

// Act is something that an operator did.
type Act struct {
	// What names it: thaw, lockdown.
	What string
	// Slice is what it was about; zero for the site.
	Slice urn.URN
	Text  string
	// Operator is who did it; see Operator.
	Operator string
	// At is when, for Note; the log's own time without it.
	At time.Time
}

func (a *Act) line(at time.Time) *Line {
	return &Line{
		At: at.UTC().Format(timeLayout), Event: eventAct, What: a.What, Slice: a.Slice.String(), Text: a.Text, Operator: a.Operator,
	}
}

// Operator names the user that runs this program.
func Operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// entryLine is the line of a journal entry, as far as the journal tells.
func entryLine(e am.JournalEntry) *Line {
	l := &Line{
		At: e.At.UTC().Format(timeLayout), Event: eventWork, Slice: e.Slice.String(), Slivers: len(e.Slivers), Text: e.Text, Journal: []string{e.ID},
	}
	switch {
	case !e.Caller.IsZero():
		code := int(am.Success)
		l.Event, l.ID, l.Method, l.API, l.Remote, l.Code = eventCall, e.Request, e.Method, e.API, e.Remote, &code
		l.Caller, l.Speaker, l.Credentials = e.Caller.String(), e.Speaker.String(), e.Credentials
		if l.Method == "" { // of a store that was written before entries told it
			l.Method = e.Event
		}
	case e.Operator != "":
		l.Event, l.What, l.Operator = eventAct, e.Event, e.Operator
	default:
		l.What, l.Request = e.Event, e.Request
		if len(e.Slivers) == 1 {
			l.Sliver, l.Slivers = e.Slivers[0].String(), 0
		}
	}
	return l
}
