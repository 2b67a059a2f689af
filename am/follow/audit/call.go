package audit

import (
	"os/user"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// Call is a call that may have changed something, with its result.
type Call struct {
	// ID is the request id.
	ID string
	// Service is the service of the trial authority; empty for the aggregate manager.
	Service string
	Method  string
	// API is the version of the AM API.
	API    int
	Remote string // address and port
	// Times and From are set for callers without a trusted certificate: the line describes
	// the latest of Times calls from the address or network From.
	Times  int
	From   string
	Caller urn.URN
	// Speaker is the tool that called on behalf of the caller; zero if none did.
	Speaker urn.URN
	Slice   urn.URN
	// Slivers is the number of slivers of the call.
	Slivers int
	// Credentials are the SHA-256 fingerprints of the credentials.
	Credentials []string
	// Code is the geni_code, or the code of the service; for a Fault the fault's code.
	Code   int
	Detail am.Detail
	Fault  bool
	Output string
}

func (c *Call) line(at time.Time) *Line {
	l := &Line{
		At: at.UTC().Format(timeLayout), Event: eventCall, ID: c.ID, Service: c.Service, Method: c.Method, API: c.API, Remote: c.Remote, Times: c.Times, From: c.From,
		Caller: c.Caller.String(), Speaker: c.Speaker.String(), Slice: c.Slice.String(), Slivers: c.Slivers,
		Credentials: c.Credentials, Code: &c.Code, Fault: c.Fault, Output: c.Output,
	}
	if c.Detail != am.NoDetail {
		detail := int(c.Detail)
		l.Detail = &detail
	}
	return l
}

// Act is an action of an operator.
type Act struct {
	// What names the action, such as thaw or lockdown.
	What string
	// Slice is the slice concerned; zero for the site.
	Slice urn.URN
	Text  string
	// Operator is the user who acted; see the function Operator.
	Operator string
	// At is the time in the line that Note writes; zero means the current time. Log.Act
	// ignores it.
	At time.Time
}

func (a *Act) line(at time.Time) *Line {
	return &Line{
		At: at.UTC().Format(timeLayout), Event: eventAct, What: a.What, Slice: a.Slice.String(), Text: a.Text, Operator: a.Operator,
	}
}

// Operator returns the name of the user that runs this program.
func Operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
