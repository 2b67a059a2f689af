package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/authority"
	"patchbay/am/client"
	"patchbay/am/display"
)

// request is one request of a browser.
type request struct {
	*Pages
	w       http.ResponseWriter
	r       *http.Request
	now     time.Time
	visitor *authority.Visitor // nil if nobody is signed in
	// Live is the URL of the event stream about the page; "" for none. The stream's first event is due once the
	// page's revision differs from Version.
	Live    string
	Version uint64
	Page    string // the path of a page with Live, from which the script refreshes it
}

// problem is an error that a page shows as it is.
type problem struct {
	status      int
	title, text string
}

func (e *problem) Error() string { return e.title + ": " + e.text }

// errNotFound is also the answer for what the visitor may not see.
var errNotFound = &problem{http.StatusNotFound, "There is nothing here for you", "It may have ended, or belong to somebody else."}

// badRequest is the problem of a form with a wrong value.
func badRequest(format string, a ...any) error {
	return &problem{http.StatusBadRequest, "That was not carried out", fmt.Sprintf(format, a...)}
}

// readVisitor finds who is signed in by the cookie.
func (q *request) readVisitor() error {
	c, err := q.r.Cookie(q.cookie)
	if err != nil || q.Authority == nil {
		return nil
	}
	v, ok, err := q.Authority.Session(c.Value, q.now)
	if ok {
		q.visitor = &v
	}
	return err
}

// check returns an error or a redirect if the visitor is not of the audience.
func (q *request) check(a audience) error {
	switch {
	case a == anyone, a == members && q.isMember(), a == operators && q.isOperator():
		return nil
	case q.visitor == nil && q.r.Method == http.MethodGet:
		if to := url.QueryEscape(q.r.URL.RequestURI()); strings.HasPrefix(q.r.URL.Path, startPath) && len(to) < 1000 {
			q.setCookie(q.cookie+chosen, to, 3600)
		}
		return &redirect{"/ui/sign-in"}
	case q.visitor == nil:
		return &problem{http.StatusUnauthorized, "You are not signed in", "Your session has ended, and nothing was changed. Sign in with a new link."}
	}
	return errNotFound
}

// Visitor returns the member or operator who is signed in; nil if nobody is.
func (q *request) Visitor() *authority.Visitor { return q.visitor }

func (q *request) isMember() bool   { return q.visitor != nil && q.visitor.Operator == "" }
func (q *request) isOperator() bool { return q.visitor != nil && q.visitor.Operator != "" }

// caller names the visitor for limits and the log: a member, an operator, or an address.
func (q *request) caller() string {
	switch {
	case q.isOperator():
		return "operator " + q.visitor.Name()
	case q.visitor != nil:
		return q.visitor.Member.String()
	}
	host, _, _ := net.SplitHostPort(q.r.RemoteAddr)
	return host
}

// redirect is the answer of a form.
type redirect struct{ to string }

func (r *redirect) Error() string { return "see " + r.to }

// notice is shown once, on the next page of the session.
type notice struct {
	IsWrong bool
	Text    string
}

func done(format string, a ...any) notice { return notice{false, fmt.Sprintf(format, a...)} }

// wrong is the notice of an error of a call.
func wrong(what string, err error) notice { return notice{true, what + ": " + errorText(err)} }

// maxNotices limits the notices of a session, and maxNotice the characters of each, since nobody may ever read them.
const maxNotices, maxNotice = 50, 2000

// redirect answers a form: the browser shows the page at the path to, with the notices.
func (q *request) redirect(to string, list ...notice) error {
	if q.visitor != nil && len(list) > 0 {
		for i := range list {
			list[i].Text = display.Cut(list[i].Text, maxNotice)
		}
		all := append(q.notices.take(q.visitor.ID), list...)
		q.notices.put(q.visitor.ID, all[max(0, len(all)-maxNotices):])
	}
	return &redirect{to}
}

// Notices returns the notices of the session, which are then gone.
func (q *request) Notices() []notice {
	if q.visitor == nil || q.r.Header.Get(refreshHeader) != "" {
		return nil
	}
	return q.notices.take(q.visitor.ID)
}

// refreshHeader marks the requests of the script that refresh a page.
const refreshHeader = "X-Patchbay-Refresh"

// page is what a handler shows.
type page struct {
	Name   string // of the template
	Title  string
	Tab    string // the entry of the menu, such as mine
	Status int    // 0 means 200
	Body   any
}

// layout is the dot of the layout's template.
type layout struct {
	page
	*request
}

// render answers with a page.
func (q *request) render(x page) error {
	body, err := q.html(x)
	if err != nil {
		return err
	}
	return q.send(max(x.Status, http.StatusOK), htmlType, body)
}

const htmlType = "text/html; charset=utf-8"

// html returns the text of a page.
func (q *request) html(x page) ([]byte, error) {
	t := q.templates[x.Name]
	if t == nil {
		return nil, fmt.Errorf("there is no template %s", x.Name)
	}
	var b bytes.Buffer
	err := t.ExecuteTemplate(&b, "layout", layout{x, q})
	return b.Bytes(), err
}

// Alert returns what everybody must know about a lockdown; "" for none.
func (q *request) Alert() string {
	free, err := q.Free()
	if err != nil || free.Lockdown == "" {
		return ""
	}
	return "Nothing new can be started now. Nodes that exist continue, and can be extended and ended. " + free.Lockdown
}

// fail answers with an error.
func (q *request) fail(err error) {
	if x, ok := errors.AsType[*redirect](err); ok {
		http.Redirect(q.w, q.r, x.to, http.StatusSeeOther)
		return
	}
	if errors.Is(err, context.Canceled) {
		return // the browser has gone
	}
	q.Live, q.Page = "", ""
	x := problemOf(err)
	if x == nil {
		x = &problem{http.StatusInternalServerError, "This page cannot be shown", "An error occurred at " + inUTC(q.now) + ". The log of the site has the reason."}
		q.Log.Error("a page cannot be shown", "path", q.r.Pattern, "error", err) // the URL may have the secret of a link
	}
	if q.render(page{Name: "problem", Title: x.title, Status: x.status, Body: [2]string{x.title, x.text}}) != nil {
		http.Error(q.w, x.Error(), x.status)
	}
}

// problemOf returns the problem that an error is, also if it is the refusal of a call; nil for others.
func problemOf(err error) *problem {
	if x, ok := errors.AsType[*problem](err); ok {
		return x
	}
	_, isAM := errors.AsType[*am.Error](err)
	if _, isAuthority := errors.AsType[*client.AuthorityError](err); isAM || isAuthority {
		return &problem{http.StatusConflict, "The site refused that", sentence(errorText(err))}
	}
	return nil
}

// plainTexts replace texts of the authority that name a field of a call.
var plainTexts = map[string]string{
	"KEY_PUBLIC must be":        "this is not a whole public SSH key. Paste all of the line of a file such as ~/.ssh/id_ed25519.pub, which begins with ssh-ed25519",
	"is a member already":       "they are a partner already",
	"you have this key already": "you have this key already",
	"Unknown member urn":        "there is no member of this name here",
}

// errorText returns an error for people: without the code and its name, which texts begin with.
func errorText(err error) string {
	if e, ok := errors.AsType[*client.AuthorityError](err); ok {
		for said, text := range plainTexts {
			if strings.Contains(e.Output, said) {
				return text
			}
		}
		if _, text, ok := strings.Cut(e.Output, " ("); ok { // CODE (text)
			return strings.TrimSuffix(text, ")")
		}
		return e.Output
	}
	if e, ok := errors.AsType[*problem](err); ok {
		return strings.TrimSuffix(e.text, ".")
	}
	if e, ok := errors.AsType[*am.Error](err); ok {
		text := e.Msg
		if _, rest, ok := strings.Cut(text, "): "); ok {
			text = rest
		}
		text, _, _ = strings.Cut(text, ": geni_best_effort=")
		return sliverURN.ReplaceAllString(text, "a node")
	}
	return err.Error()
}

// sliverURN matches how texts of calls name a sliver.
var sliverURN = regexp.MustCompile(`sliver urn:publicid:[^\s,;:]+(?::[^\s,;:]+)*`)
