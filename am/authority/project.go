package authority

import (
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"patchbay/am/api"
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
	},
	rows:   projectRows,
	create: createProject,
	update: updateProject,
	remove: deleteProject,
}

func projectRows(c *call, _ conditions, yield func(row)) (err error) {
	for _, p := range each[Project](c.groups(projects, &err), &err) {
		if may(objectProject, actLookup, p.relationTo(c.caller), p.URN) == nil {
			yield(rowOfProject(p, c.now))
		}
	}
	return err
}

func rowOfProject(p Project, now time.Time) row {
	r := p.row("PROJECT", now)
	r.values["PROJECT_NAME"] = p.URN.Name
	return r
}

func checkProjectName(name string) error {
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
	if err := checkProjectName(name); err != nil {
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
	p.Description, p.Expires, p.Members = f.text("PROJECT_DESCRIPTION"), expires, []Membership{{c.caller, Lead, true}}
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
		return putProject(t, p)
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
