package web

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"patchbay/am/site/operate"
)

// form is a form of an operator's page, for the templates form, reason, time, longer and over. After a mistake it has the values that
// were sent, and the mistake as the value wrong.
type form struct {
	ID, Readers string // Readers says who reads the reason
	Back        string // the page that shows the result
	url.Values
}

// Ticked reports whether a box was ticked.
func (f form) Ticked(name, value string) bool { return slices.Contains(f.Values[name], value) }

// timeField is an input for a time in UTC and, if After is not "", one for a duration.
type timeField struct {
	form
	Name, Label, After string
}

func (f form) Time(name, label, after string) timeField { return timeField{f, name, label, after} }

// timeText returns the time or the duration of a timeField in the words of the commands. If both are filled in, they are no time.
func timeText(v url.Values, name string) string {
	at := v.Get(name)
	switch len(at) {
	case len("2030-01-31T12:00"):
		at += ":00Z"
	case len("2030-01-31T12:00:00"):
		at += "Z"
	}
	return strings.TrimSpace(at + " " + v.Get(name+"-in"))
}

// sent has the form that the page shows again. A page's body embeds it.
type sent struct {
	values url.Values
	Path   string // of the page, without the form
}

// sent reads the form that refuse has put into the query.
func (q *request) sent() sent {
	v := q.r.URL.Query()
	values, _ := url.ParseQuery(v.Get("sent")) // the rest of a damaged one is of use
	v.Del("sent")
	return sent{values, (&url.URL{Path: q.r.URL.Path, RawQuery: v.Encode()}).RequestURI()}
}

// Form returns the form with an ID, filled in if it was sent.
func (s sent) Form(id, readers string) form {
	f := form{id, readers, s.Path, nil}
	if s.values.Get("form") == id {
		f.Values = s.values
	}
	return f
}

// back returns the operator's page to which the answer of a form leads.
func (q *request) back() string {
	if to := q.r.PostFormValue("back"); strings.HasPrefix(to, "/ui/operator/") {
		return to
	}
	return "/ui/operator/"
}

// maxSent limits a form that is shown again: browsers and proxies limit URLs.
const maxSent = 6000

// refuse answers a form with a refusal: the page is shown with a notice and the form as it was sent. Other errors are returned.
func (q *request) refuse(err error) error {
	p, ok := errors.AsType[*problem](err)
	to, failed := url.Parse(q.back())
	if !ok || failed != nil {
		return err
	}
	values := maps.Clone(q.r.PostForm)
	values.Set("wrong", p.text)
	if strings.Contains(p.text, overText) {
		values.Set("over", "ask")
	}
	values.Del("back")
	if text := values.Encode(); len(text) < maxSent {
		v := to.Query()
		v.Set("sent", text)
		to.RawQuery, to.Fragment = v.Encode(), values.Get("form")
	}
	return q.redirect(to.String(), notice{true, p.text})
}

// reason returns the reason of a form, which the order needs.
func (q *request) reason() (string, error) {
	text := strings.TrimSpace(q.r.PostFormValue("reason"))
	if text == "" {
		return "", badRequest("Write a reason. It is for the journal.")
	}
	return text, nil
}

// leaseEnd returns the end of leases of a form. It refuses an end that users cannot get, unless the form says longer.
func (q *request) leaseEnd() (operate.End, error) {
	end, err := operate.ParseEnd("New end:", timeText(q.r.PostForm, "end"))
	if err != nil {
		return end, badRequest("Give the new end: a time, or a duration from now such as 8h or 3d.")
	}
	last := q.now.Add(q.LongestLease)
	isLonger := end.Until.After(last) || time.Duration(end.For)*time.Second > q.LongestLease
	if q.LongestLease > 0 && isLonger && q.r.PostFormValue("longer") == "" {
		q.r.PostForm.Set("longer", "ask")
		return end, badRequest("Users of this site can extend until %s at most. To set a later end, tick %q.", inUTC(last), "longer than users may")
	}
	return end, nil
}
