package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"patchbay/am/authority"
)

var signInRoutes = []route{
	{"GET /ui/sign-in", anyone, (*request).showSignIn, nil},
	{"GET /ui/sign-in/{link}", anyone, (*request).showLink, nil},
	{"POST /ui/sign-in", anyone, (*request).signIn, nil},
	{"GET /ui/sign-out", anyone, (*request).showSignOut, nil},
	{"POST /ui/sign-out", anyone, (*request).signOut, nil},
}

// signInPage is the data of templates/signin.html. Link is empty without a valid link; Problem then says why.
type signInPage struct {
	Link, Problem string
	authority.Visitor
	IsOut   bool   // the visitor has signed out
	Present string // who is signed in, whose session the link ends
}

// showSignIn explains where links come from.
func (q *request) showSignIn() error {
	if q.visitor != nil {
		return &redirect{q.home()}
	}
	return q.render(page{Name: "signin", Title: "Sign in", Tab: "sign-in", Body: signInPage{}})
}

// home is the first page of a visitor.
func (q *request) home() string {
	if q.isOperator() {
		return "/ui/operator/"
	}
	if list, _ := q.Authority.Classes(q.visitor.Member); len(list) > 0 {
		return "/ui/class"
	}
	return "/ui/mine"
}

// showLink shows whom a link signs in. It uses nothing, since mail programs open links by themselves.
func (q *request) showLink() error {
	if q.Authority == nil {
		return errNotFound
	}
	link := strings.TrimRight(q.r.PathValue("link"), ".,;:)>") // as mail programs and people add
	v, err := q.Authority.ReadLink(link, q.now)
	body := signInPage{Link: link, Visitor: v}
	switch {
	case err != nil && !isRefusal(err):
		return err
	case err != nil && q.visitor != nil: // a link that was used before, perhaps from a bookmark
		return &redirect{q.home()}
	case err != nil:
		body = signInPage{Problem: sentence(err.Error())}
	case q.visitor != nil && q.visitor.Name() != v.Name():
		body.Present = q.visitor.Name()
	}
	return q.render(page{Name: "signin", Title: "Sign in", Tab: "sign-in", Body: body})
}

// signIn uses a link, and begins a session. An earlier session of this browser ends.
func (q *request) signIn() error {
	if q.Authority == nil {
		return errNotFound
	}
	secret, v, err := q.Authority.UseLink(q.r.FormValue("link"), q.now)
	switch {
	case err != nil && !isRefusal(err):
		return err
	case err != nil:
		return q.render(page{Name: "signin", Title: "Sign in", Tab: "sign-in", Status: http.StatusForbidden, Body: signInPage{Problem: sentence(err.Error())}})
	}
	if err := q.endSession(); err != nil {
		return err
	}
	q.visitor = &v
	q.setCookie(q.cookie, secret, int(authority.SessionLife.Seconds()))
	q.Log.Info("signed in", "visitor", q.caller(), "remote", q.r.RemoteAddr)
	to := q.home()
	if c, err := q.r.Cookie(q.cookie + chosen); err == nil && q.isMember() {
		q.setCookie(q.cookie+chosen, "", -1)
		if path, _ := url.QueryUnescape(c.Value); strings.HasPrefix(path, startPath) {
			to = path
		}
	}
	return &redirect{to}
}

// chosen ends the name of the cookie that keeps the page to start an experiment, perhaps with a time of the calendar, until its visitor has
// signed in.
const chosen = "-chosen"

// isRefusal reports whether an error says what is wrong with a link. Other errors, such as a full disk, are for the log.
func isRefusal(err error) bool {
	_, ok := errors.AsType[*authority.Error](err)
	return ok
}

// showSignOut asks members, since their link works only once.
func (q *request) showSignOut() error {
	if q.visitor == nil {
		return &redirect{"/ui/sign-in"}
	}
	return q.render(page{Name: "signout", Title: "Sign out", Body: q})
}

// signOut ends the session of this browser.
func (q *request) signOut() error {
	if err := q.endSession(); err != nil {
		return err
	}
	return q.showSignedOut()
}

func (q *request) showSignedOut() error {
	q.setCookie(q.cookie, "", -1)
	q.visitor = nil
	return q.render(page{Name: "signin", Title: "Signed out", Tab: "sign-in", Body: signInPage{IsOut: true}})
}

func (q *request) endSession() error {
	c, err := q.r.Cookie(q.cookie)
	if err != nil || q.Authority == nil {
		return nil
	}
	if q.visitor != nil {
		q.notices.take(q.visitor.ID)
	}
	return q.Authority.EndSession(c.Value)
}

func (q *request) setCookie(name, value string, maxAge int) {
	http.SetCookie(q.w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: maxAge,
		Secure: q.isSecure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}
