package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/am/authority"
	"patchbay/am/follow/audit"
	"patchbay/am/site/operate"
	"patchbay/credentials/trial"
)

// AuthorityClient is the trial authority of a site, for operators' commands. The keys are read from
// files; the state is read and changed through an AdminClient.
type AuthorityClient struct {
	*trial.Authority
	admin AdminClient
	ctx   context.Context // of the command
}

// ConnectAuthority returns a client of the site's trial authority for a command with the context
// ctx. The error wraps fs.ErrNotExist if there is none.
func ConnectAuthority(ctx context.Context, c *Config) (*AuthorityClient, error) {
	keys, err := trial.Open(filepath.Join(filepath.Dir(c.Origin.File), AuthorityDir))
	if err != nil {
		return nil, err
	}
	return &AuthorityClient{keys, Connect(c), ctx}, nil
}

const (
	authorityPath = "/authority/"
	// maxAuthorityOrder limits an order in bytes. It can have the SSH keys of a user, or a request of 1 MiB in base64.
	maxAuthorityOrder = 2 << 20
)

// authorityOrder is an order to the trial authority.
type authorityOrder struct {
	// Name is the name of a user, slice or project.
	Name string `json:"name"`
	// Member is the owner of a slice, the member who gets a role, or the LEAD of a project.
	Member  string         `json:"member,omitempty"`
	Role    authority.Role `json:"role,omitempty"`
	Names   []string       `json:"names,omitempty"` // of members to add to a project
	Request []byte         `json:"request,omitempty"`
	Life    time.Duration  `json:"life,omitempty"` // of a link
	SSHKeys []byte         `json:"ssh_keys,omitempty"`
	Expires time.Time      `json:"expires,omitzero"`
	// Operator is the name of the operator for the journal, which has the orders link and sign-out.
	Operator string `json:"operator,omitempty"`
}

// authorityResult is the answer to an authorityOrder.
type authorityResult struct {
	Issued *authority.Issued `json:",omitempty"`
	Code   string            `json:",omitempty"` // of an invitation
	// Changed means that an invitation has replaced another, or that a project is new.
	Changed bool  // or that the request is the one of the order
	Link    *Link `json:",omitempty"`
	Number  int   `json:",omitempty"` // of sessions that were ended, or of members that were added
}

// Link is a link to the pages of a site, which signs one person in once.
type Link struct {
	URL  string    `json:"url"`
	Ends time.Time `json:"ends"`
}

const webOperatorPath = "/web/operator"

// webOperatorOrder asks for a link for an operator, or ends the sessions and links of all operators.
type webOperatorOrder struct {
	Operator string `json:"operator"`
	SignOut  bool   `json:"sign_out,omitempty"`
}

type webOperatorResult struct {
	Link
	Ended int `json:"ended,omitempty"` // sessions
}

// listOfOrder has, for the orders that do not change the list of members, the list that they change.
var listOfOrder = map[string]string{"slice": "slices", "role": "slices", "add-project": "projects", "remove-project": "projects", "add-members": "projects", "request": "projects"}

func (a *AuthorityClient) order(what string, o authorityOrder) (r authorityResult, err error) {
	o.Operator = audit.Operator()
	_, err = a.admin.Order(a.ctx, authorityPath+what, o, &r)
	return r, err
}

// UserWithKeys does what the method of authority.Authority does.
func (a *AuthorityClient) UserWithKeys(name string, ssh []byte, now time.Time) (trial.User, error) {
	if _, err := a.order("user", authorityOrder{Name: name, SSHKeys: ssh}); err != nil {
		return trial.User{}, err
	}
	return a.Authority.UserWithKeys(name, nil, now) // reads the files, so that no private key is sent
}

// UserForPages does what the method of authority.Authority does.
func (a *AuthorityClient) UserForPages(name string) error {
	_, err := a.order("user-for-pages", authorityOrder{Name: name})
	return err
}

// Slice does what the method of authority.Authority does.
func (a *AuthorityClient) Slice(name, owner string, expires time.Time) (authority.Issued, error) {
	r, err := a.order("slice", authorityOrder{Name: name, Member: owner, Expires: expires})
	if err == nil && r.Issued == nil {
		err = errors.New("the answer of the served site has no credential")
	}
	if err != nil {
		return authority.Issued{}, err
	}
	return *r.Issued, nil
}

// Invite does what the method of authority.Authority does.
func (a *AuthorityClient) Invite(name string) (code string, isReplaced bool, err error) {
	r, err := a.order("invite", authorityOrder{Name: name})
	return r.Code, r.Changed, err
}

// Remove does what the method of authority.Authority does.
func (a *AuthorityClient) Remove(name string) error {
	_, err := a.order("remove", authorityOrder{Name: name})
	return err
}

// SetRole does what the method of authority.Authority does.
func (a *AuthorityClient) SetRole(slice, name string, role authority.Role) error {
	_, err := a.order("role", authorityOrder{Name: slice, Member: name, Role: role})
	return err
}

// AddProject does what the method of authority.Authority does.
func (a *AuthorityClient) AddProject(name, lead string) (isNew bool, err error) {
	r, err := a.order("add-project", authorityOrder{Name: name, Member: lead})
	return r.Changed, err
}

// RemoveProject does what the method of authority.Authority does.
func (a *AuthorityClient) RemoveProject(name string) error {
	_, err := a.order("remove-project", authorityOrder{Name: name})
	return err
}

// AddMembers does what the method of authority.Authority does.
func (a *AuthorityClient) AddMembers(project string, names []string, role authority.Role) (added int, err error) {
	r, err := a.order("add-members", authorityOrder{Name: project, Names: names, Role: role})
	return r.Number, err
}

// SetRequest does what the method of authority.Authority does.
func (a *AuthorityClient) SetRequest(project string, text []byte) (isSet bool, err error) {
	r, err := a.order("request", authorityOrder{Name: project, Request: text})
	return r.Changed, err
}

// Link returns a link that signs a member in, and ends their earlier one. A life of 0 means authority.LinkLife. With
// another life, a member who can sign in without it keeps the link, and the URL is "". Link fails with ErrNotServed if the site is not
// served.
func (a *AuthorityClient) Link(name string, life time.Duration) (Link, error) {
	r, err := a.order("link", authorityOrder{Name: name, Life: life})
	if err == nil && r.Link == nil && life == 0 {
		err = errors.New("the answer of the served site has no link")
	}
	if err != nil || r.Link == nil {
		return Link{}, err
	}
	return *r.Link, nil
}

// SignOut does what the method of authority.Authority does.
func (a *AuthorityClient) SignOut(name string) (ended int, err error) {
	r, err := a.order("sign-out", authorityOrder{Name: name})
	return r.Number, err
}

// OperatorLink returns a link that signs in the user of this process as an operator. It fails with ErrNotServed if the
// site is not served.
func (h AdminClient) OperatorLink(ctx context.Context) (Link, error) {
	var r webOperatorResult
	_, err := h.Order(ctx, webOperatorPath, webOperatorOrder{Operator: audit.Operator()}, &r)
	return r.Link, err
}

// SignOutOperators ends the sessions and links of all operators, and returns the number of sessions.
func (h AdminClient) SignOutOperators(ctx context.Context) (ended int, err error) {
	var r webOperatorResult
	_, err = h.Order(ctx, webOperatorPath, webOperatorOrder{Operator: audit.Operator(), SignOut: true}, &r)
	return r.Ended, err
}

// Members does what the method of authority.Authority does.
func (a *AuthorityClient) Members(removed bool) (list []authority.Listed, err error) {
	err = a.admin.Ask(a.ctx, authorityPath+"members?removed="+strconv.FormatBool(removed), &list)
	return list, err
}

// Slices does what the method of authority.Authority does.
func (a *AuthorityClient) Slices() (list []authority.Group, err error) {
	err = a.admin.Ask(a.ctx, authorityPath+"slices", &list)
	return list, err
}

// Projects does what the method of authority.Authority does.
func (a *AuthorityClient) Projects() (list []authority.Group, err error) {
	err = a.admin.Ask(a.ctx, authorityPath+"projects", &list)
	return list, err
}

// HasSlice does what the method of authority.Authority does.
func (a *AuthorityClient) HasSlice(name string) (has bool, err error) {
	err = a.admin.Ask(a.ctx, authorityPath+"has-slice?name="+url.QueryEscape(name), &has)
	return has, err
}

// BackUpAuthority writes a copy of the state of the site's trial authority.
func BackUpAuthority(ctx context.Context, c *Config, w io.Writer) error {
	return Connect(c).Stream(ctx, authorityPath+"backup", w)
}

// authorityEndpoints answer the requests of an AuthorityClient.
type authorityEndpoints struct {
	config *Config
	now    func() time.Time
	served *authority.Authority // nil if the site is not served; then each request opens it
	// pagesURL returns the URL of the pages, without a slash at the end; "" if there are none. It is nil if the
	// site is not served.
	pagesURL func() string
	// operators holds the sessions of operators; nil if the site has no pages. record writes a note to the journal.
	operators *authority.Authority
	record    func(operate.Note) error
	one       sync.Mutex // held by a request that has opened it
}

// handlers returns the handlers by their patterns.
func (e *authorityEndpoints) handlers() map[string]http.Handler {
	handlers := map[string]http.Handler{
		"GET " + authorityPath + "backup": http.HandlerFunc(e.backUp),
	}
	for name, read := range map[string]func(*authority.Authority, url.Values) (any, error){
		"members": func(a *authority.Authority, q url.Values) (any, error) {
			return a.Members(q.Get("removed") == "true", e.now())
		},
		"slices":    func(a *authority.Authority, _ url.Values) (any, error) { return a.Slices(e.now()) },
		"projects":  func(a *authority.Authority, _ url.Values) (any, error) { return a.Projects() },
		"has-slice": func(a *authority.Authority, q url.Values) (any, error) { return a.HasSlice(q.Get("name")) },
	} {
		handlers["GET "+authorityPath+name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q, err := operate.ReadQuery(r)
			e.answer(w, err, func(a *authority.Authority) (any, error) { return read(a, q) })
		})
	}
	for name, carryOut := range e.orders() {
		handlers["POST "+authorityPath+name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var o authorityOrder
			err := operate.ReadOrder(w, r, maxAuthorityOrder, &o)
			e.answer(w, err, func(a *authority.Authority) (any, error) { return carryOut(a, &o) })
		})
	}
	handlers["POST "+webOperatorPath] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o webOperatorOrder
		err := operate.ReadOrder(w, r, maxAuthorityOrder, &o)
		if err == nil {
			err = operate.CheckOperator(o.Operator, "")
		}
		var result webOperatorResult
		if err == nil {
			result, err = e.webOperator(&o)
		}
		if err != nil {
			operate.Fail(w, err)
			return
		}
		writeJSON(w, result)
	})
	if e.pagesURL == nil { // links need a server
		delete(handlers, "POST "+webOperatorPath)
		delete(handlers, "POST "+authorityPath+"link")
	}
	return handlers
}

// orders returns the functions that carry out orders, by the names of orders.
func (e *authorityEndpoints) orders() map[string]func(*authority.Authority, *authorityOrder) (authorityResult, error) {
	return map[string]func(*authority.Authority, *authorityOrder) (authorityResult, error){
		"user": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			_, err = a.UserWithKeys(o.Name, o.SSHKeys, e.now())
			return r, err
		},
		"user-for-pages": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			return r, a.UserForPages(o.Name, e.now())
		},
		"slice": func(a *authority.Authority, o *authorityOrder) (authorityResult, error) {
			s, err := a.Slice(o.Name, o.Member, o.Expires, e.now())
			return authorityResult{Issued: &s}, err
		},
		"invite": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			r.Code, r.Changed, err = a.Invite(o.Name, e.now())
			return r, err
		},
		"remove": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			return r, a.Remove(o.Name, e.now())
		},
		"role": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			return r, a.SetRole(o.Name, o.Member, o.Role)
		},
		"add-project": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			r.Changed, err = a.AddProject(o.Name, o.Member, e.now())
			return r, err
		},
		"remove-project": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			return r, a.RemoveProject(o.Name, e.now())
		},
		"add-members": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			r.Number, err = a.AddMembers(o.Name, o.Names, o.Role)
			return r, err
		},
		"request": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			r.Changed, err = a.SetRequest(o.Name, o.Request)
			return r, err
		},
		"sign-out": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			if r.Number, err = a.SignOut(o.Name); err == nil {
				err = e.note(o, o.Name+" signed out")
			}
			return r, err
		},
		"link": func(a *authority.Authority, o *authorityOrder) (authorityResult, error) {
			if o.Life != 0 {
				if can, err := a.CanSignIn(o.Name, e.now()); err != nil || can {
					return authorityResult{}, err
				}
			}
			link, err := e.newLink(func() (string, time.Time, error) {
				return a.NewLink(o.Name, cmp.Or(o.Life, authority.LinkLife), e.now())
			})
			if err == nil {
				err = e.note(o, "sign-in link of "+o.Name)
			}
			return authorityResult{Link: &link}, err
		},
	}
}

// newLink returns the link with the secret that create returns. It fails if there are no pages.
func (e *authorityEndpoints) newLink(create func() (secret string, ends time.Time, err error)) (Link, error) {
	pages := e.pagesURL()
	if pages == "" {
		return Link{}, fmt.Errorf("this site has no pages; set web in %s, and restart the server", e.config.Origin.File)
	}
	secret, ends, err := create()
	return Link{pages + authority.SignInPath + secret, ends}, err
}

// note writes what an order has done to the journal of a served site.
func (e *authorityEndpoints) note(o *authorityOrder, text string) error {
	if e.record == nil || o.Operator == "" {
		return nil
	}
	return e.record(operate.Note{Event: "web", Text: text, Operator: o.Operator})
}

// webOperator carries out an order. The journal has it, since whoever has the link acts as the operator.
func (e *authorityEndpoints) webOperator(o *webOperatorOrder) (r webOperatorResult, err error) {
	text := "sign-in link"
	switch {
	case e.operators == nil:
		err = errors.New("this site has no pages; set web in " + e.config.Origin.File + ", and restart the server")
	case o.SignOut:
		text = "all operators signed out"
		r.Ended, err = e.operators.SignOutOperators()
	default:
		r.Link, err = e.newLink(func() (string, time.Time, error) { return e.operators.NewOperatorLink(o.Operator, e.now()) })
	}
	if err == nil {
		err = e.record(operate.Note{Event: "web", Text: text, Operator: o.Operator})
	}
	if err != nil {
		err = &operate.RefusedError{Text: err.Error()}
	}
	return r, err
}

// answer sends requestErr, if it is not nil, in place of the result of f.
func (e *authorityEndpoints) answer(w http.ResponseWriter, requestErr error, f func(*authority.Authority) (any, error)) {
	if requestErr != nil {
		operate.Fail(w, requestErr)
		return
	}
	var answer any
	err := e.open(func(a *authority.Authority) (err error) {
		answer, err = f(a)
		return err
	})
	if err != nil {
		operate.Fail(w, &operate.RefusedError{Text: err.Error()})
		return
	}
	writeJSON(w, answer)
}

// open calls f with the authority of the site.
func (e *authorityEndpoints) open(f func(*authority.Authority) error) error {
	if e.served != nil {
		return f(e.served)
	}
	e.one.Lock()
	defer e.one.Unlock()
	a, err := e.config.OpenAuthority()
	if err != nil {
		return err
	}
	return errors.Join(f(a), a.Close())
}

// backUp sends a copy as a whole, so that a slow client does not delay changes.
func (e *authorityEndpoints) backUp(w http.ResponseWriter, r *http.Request) {
	var copied strings.Builder
	err := operate.NoQuery(r)
	if err == nil {
		err = e.open(func(a *authority.Authority) error { return a.Backup(&copied) })
	}
	if err != nil {
		operate.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.WriteString(w, copied.String()) // the client may have closed the connection
}
