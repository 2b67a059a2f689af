package site

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/am/authority"
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
	// maxAuthorityOrder limits an order in bytes. It can have the SSH keys of a user.
	maxAuthorityOrder = 1 << 20
)

// authorityOrder is an order to the trial authority.
type authorityOrder struct {
	// Name is the name of a user, slice or project.
	Name string `json:"name"`
	// Member is the owner of a slice, the member who gets a role, or the LEAD of a project.
	Member  string         `json:"member,omitempty"`
	Role    authority.Role `json:"role,omitempty"`
	SSHKeys []byte         `json:"ssh_keys,omitempty"`
	Expires time.Time      `json:"expires,omitzero"`
}

// authorityResult is the answer to an authorityOrder.
type authorityResult struct {
	Issued *authority.Issued `json:",omitempty"`
	Code   string            `json:",omitempty"` // of an invitation
	// Changed means that an invitation has replaced another, or that a project is new.
	Changed bool
}

// listOfOrder has, for the orders that do not change the list of members, the list that they change.
var listOfOrder = map[string]string{"slice": "slices", "role": "slices", "add-project": "projects", "remove-project": "projects"}

func (a *AuthorityClient) order(what string, o authorityOrder) (r authorityResult, err error) {
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
	served *authority.Authority // nil if the site does not serve it; then each request opens it
	one    sync.Mutex           // held by a request that has opened it
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
	for name, carryOut := range map[string]func(*authority.Authority, *authorityOrder) (authorityResult, error){
		"user": func(a *authority.Authority, o *authorityOrder) (r authorityResult, err error) {
			_, err = a.UserWithKeys(o.Name, o.SSHKeys, e.now())
			return r, err
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
	} {
		handlers["POST "+authorityPath+name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var o authorityOrder
			err := operate.ReadOrder(w, r, maxAuthorityOrder, &o)
			e.answer(w, err, func(a *authority.Authority) (any, error) { return carryOut(a, &o) })
		})
	}
	return handlers
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
