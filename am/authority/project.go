package authority

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/display"
	"patchbay/am/urn"
)

var projectName = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9]{0,31}$`)

var projectObject = object{
	name: objectProject,
	fields: []field{
		{name: "PROJECT_URN", kind: typeURN, match: true},
		{name: "PROJECT_UID", kind: typeUID, match: true},
		{name: "PROJECT_NAME", kind: typeName, create: required, match: true},
		{name: "PROJECT_DESCRIPTION", kind: typeString, create: allowed, update: true},
		{name: "PROJECT_CREATION", kind: typeTime},
		{name: "PROJECT_EXPIRATION", kind: typeTime, create: allowed, update: true},
		{name: "PROJECT_EXPIRED", kind: typeBoolean, match: true},
		{name: fieldRequest, kind: typeRequest, update: true},
	},
	rows:   projectRows,
	create: createProject,
	update: updateProject,
	remove: deleteProject,
}

// fieldRequest is the request that members of a project start in a slice of their own. A lookup returns it if the
// option filter names it.
const fieldRequest = "_PATCHBAY_REQUEST"

// maxRequests limits the requests in one answer, in bytes.
const maxRequests = 4 * MaxRequest

func projectRows(c *call, match conditions, yield func(row)) (err error) {
	filter, _ := c.object.readFilter(c.options)
	size := 0
	for _, p := range each[Project](c.groups(projects, &err), &err) {
		if may(objectProject, actLookup, p.relationTo(c.caller), p.URN) != nil {
			continue
		}
		r := rowOfProject(p, c.now)
		if slices.Contains(filter, fieldRequest) && match.areMet(r) {
			text, err := c.authority.requestOf(p.URN)
			if err != nil {
				return err
			}
			if size += len(text); size > maxRequests {
				return refuse(Argument, "the requests of these projects have more than %d bytes; name fewer projects in the option match", maxRequests)
			}
			if len(text) > 0 {
				r.values[fieldRequest] = string(text)
			}
		}
		yield(r)
	}
	return err
}

// requestOf returns the request of a project; nil for none.
func (a *Authority) requestOf(project urn.URN) (text []byte, err error) {
	err = a.store.view(func(t *tx) error {
		text = bytes.Clone(t.Bucket([]byte(requests)).Get([]byte(project.Key())))
		return nil
	})
	return text, err
}

// putRequest writes the request of a project. An empty text removes it.
func putRequest(t *tx, p Project, text string) error {
	switch {
	case text == "":
		return remove(t, requests, p.URN.Key())
	case len(text) > MaxRequest:
		return refuse(Argument, "the request has %d bytes, more than %d", len(text), MaxRequest)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) }):
		return refuse(Argument, "the request is not a text in UTF-8")
	}
	return t.Bucket([]byte(requests)).Put([]byte(p.URN.Key()), []byte(text))
}

func rowOfProject(p Project, now time.Time) row {
	r := p.row("PROJECT", now)
	r.values["PROJECT_NAME"] = p.URN.Name
	return r
}

// CheckProject fails for a name that no project can have.
func CheckProject(name string) error {
	if !projectName.MatchString(name) {
		return refuse(Argument, "%q cannot name a project: write a letter, then up to 31 letters, digits or hyphens", display.Cut(name, 80))
	}
	return nil
}

// newProject returns a project without members.
func newProject(u urn.URN, now time.Time) Project {
	return Project{group: group{URN: u, UID: uuid.NewString(), Created: now.UTC().Truncate(time.Second)}}
}

func createProject(c *call, f fields) (row, error) {
	name := f.text("PROJECT_NAME")
	if err := CheckProject(name); err != nil {
		return row{}, err
	}
	expires, err := f.time("PROJECT_EXPIRATION")
	if err != nil {
		return row{}, err
	}
	if !expires.IsZero() && !expires.After(c.now) {
		return row{}, refuse(Argument, "the expiry %s is in the past", api.FormatTime(expires))
	}
	p := newProject(urn.URN{Authority: c.authority.URN().Authority, Type: urn.Project, Name: name}, c.now)
	p.Description, p.Expires, p.Members = f.text("PROJECT_DESCRIPTION"), expires, []Membership{{Member: c.caller, Role: Lead, Accepted: true}}
	err = c.update(func(t *tx) error {
		have, ok, err := get[Project](t, projects, p.URN.Key())
		led := slices.DeleteFunc(groupsOf(t, c.caller, projects), func(key string) bool { return !leads(t, c.caller, key) })
		switch {
		case err != nil:
			return err
		case ok:
			return refuse(Duplicate, "the project %s exists; choose another name", have.URN)
		case len(led) >= maxProjects:
			return refuse(Argument, "you lead %d projects, the limit; delete one first", maxProjects)
		}
		return putProject(t, p)
	})
	return rowOfProject(p, c.now), err
}

// project returns a project, if the caller may do the action.
func (c *call) project(t *tx, name, action string) (p Project, err error) {
	u, err := parseURN("the project", name, urn.Project)
	if err != nil {
		return p, err
	}
	p, ok, err := get[Project](t, projects, u.Key())
	switch {
	case err != nil:
		return p, err
	case !ok:
		return p, unknown("project urn", u)
	}
	return p, may(objectProject, action, p.relationTo(c.caller), p.URN)
}

func updateProject(c *call, name string, f fields) error {
	expires, err := f.time("PROJECT_EXPIRATION")
	if err != nil {
		return err
	}
	_, hasDescription := f["PROJECT_DESCRIPTION"]
	_, hasRequest := f[fieldRequest]
	return c.update(func(t *tx) error {
		p, err := c.project(t, name, actUpdate)
		if err != nil {
			return err
		}
		if !expires.IsZero() {
			p.Expires = expires
		}
		if hasDescription {
			p.Description = f.text("PROJECT_DESCRIPTION")
		}
		if hasRequest {
			text, _ := xmlrpc.AsString(f[fieldRequest])
			err = putRequest(t, p, text)
		}
		return errors.Join(err, putProject(t, p))
	})
}

// deleteProject refuses a project with slices that have not expired, because another project of
// that name would get their names.
func deleteProject(c *call, name string) error {
	return c.update(func(t *tx) error {
		p, err := c.project(t, name, actDelete)
		if err != nil {
			return err
		}
		if err := checkUnused(t, p, c.now); err != nil {
			return err
		}
		return removeProject(t, p)
	})
}

// checkUnused fails if a slice of the project has not expired.
func checkUnused(t *tx, p Project, now time.Time) error {
	for _, key := range following(t, slicesOfProject, math.MaxInt, p.URN.Key()) {
		end, _, err := get[time.Time](t, ends, key)
		if err != nil {
			return err
		}
		if now.Before(end) {
			return refuse(Argument, "the project has the slice %s until %s", key, api.FormatTime(end))
		}
	}
	return nil
}

// leads reports whether a member leads a slice or project that they have accepted. So nobody uses up
// the limits of another member.
func leads(t *tx, member urn.URN, group string) bool {
	role, isAccepted := roleIn(t, member, group)
	return role == Lead && isAccepted
}
