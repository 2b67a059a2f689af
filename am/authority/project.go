package authority

import (
	"regexp"
	"time"

	"github.com/google/uuid"

	"patchbay/am/api"
	"patchbay/am/urn"
)

// typeProject is the type in the URNs of projects.
const typeProject = "project"

var projectName = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9]{0,31}$`)

var projectObject = object{
	name: objectProject,
	fields: []field{
		{name: "PROJECT_URN", kind: typeURN, match: true},
		{name: "PROJECT_UID", kind: typeUID, match: true},
		{name: "PROJECT_NAME", kind: typeString, create: required, match: true},
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

func projectRows(c *call, t *tx, yield func(row)) (err error) {
	for _, p := range all[Project](t, projects, &err) {
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

func createProject(c *call, f fields) (row, error) {
	name := f.text("PROJECT_NAME")
	if !projectName.MatchString(name) {
		return row{}, refuse(Argument, "%q cannot name a project: write a letter, then up to 31 letters, digits or hyphens", cut(name))
	}
	expires, err := f.time("PROJECT_EXPIRATION")
	if err != nil {
		return row{}, err
	}
	if !expires.IsZero() && !expires.After(c.now) {
		return row{}, refuse(Argument, "the expiry %s is in the past", api.FormatTime(expires))
	}
	p := Project{group{
		URN: urn.URN{Authority: c.authority.URN().Authority, Type: typeProject, Name: name}, UID: uuid.NewString(), Description: f.text("PROJECT_DESCRIPTION"),
		Created: c.now.UTC().Truncate(time.Second), Expires: expires, Members: []Membership{{c.caller, Lead}},
	}}
	err = c.update(func(t *tx) (err error) {
		n := 0
		for key, x := range all[Project](t, projects, &err) {
			if key == p.URN.Key() {
				return refuse(Duplicate, "the project %s exists; choose another name", x.URN)
			}
			if x.roleOf(c.caller) == Lead {
				n++
			}
		}
		switch {
		case err != nil:
			return err
		case n >= maxProjects:
			return refuse(Argument, "you lead %d projects, the limit; delete one first", maxProjects)
		}
		return put(t, projects, p.URN.Key(), p)
	})
	return rowOfProject(p, c.now), err
}

func (c *call) project(t *tx, name, action string) (p Project, err error) {
	u, err := parseURN("the project", name, typeProject)
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
		return put(t, projects, p.URN.Key(), p)
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
		for _, s := range all[Slice](t, sliceRecords, &err) {
			if s.Project.Equal(p.URN) && !s.isExpired(c.now) {
				return refuse(Argument, "the project has the slice %s until %s", s.URN, api.FormatTime(s.Expires))
			}
		}
		if err != nil {
			return err
		}
		return remove(t, projects, p.URN.Key())
	})
}
