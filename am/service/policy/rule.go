package policy

import (
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/schemas/yamlfile"
)

// Rules is a parsed policy file. It does not change.
type Rules struct {
	list []*Rule
	// otherwise applies to users that match no rule; nil allows everything.
	otherwise *Rule
	file      string
	files     []string
	remarks   []yamlfile.Problem
}

// Rule is one entry of the file.
type Rule struct {
	// Name appears in refusals and in the log; "" for the rule Rules.otherwise.
	Name string
	file string // without folders
	line int

	who      []pattern // of users; none: all
	projects []pattern // authorities of slices; none: all

	types               []string      // names of sliver types; nil: all
	components          *componentSet // nil: all
	limits              [len(counted)]maxima
	ahead               *aheadLimit // nil: no limits
	lease               lease
	refuse              string // the text of the refusal; "" if the rule does not refuse all
	says                string // text added to refusals
	terms               *terms
	noComponent, noType string
}

type componentSet struct {
	list []int32 // indexes in the inventory, ascending
	text string  // as written
}

// maxima are the largest amounts held at one time; unlimited means no limit.
type maxima struct{ user, slice, project int64 }

const unlimited = -1

var (
	boundless = maxima{unlimited, unlimited, unlimited}
	noLimits  = [len(counted)]maxima{boundless, boundless, boundless}
)

// counted are the limited resources. key is the key in the file, one the name of one unit.
var counted = [...]struct {
	key, one string
	of       func(Amount) int64
}{
	{"nodes", "node", func(a Amount) int64 { return a.Nodes }},
	{"cores", "core", func(a Amount) int64 { return a.Cores }},
	{disk, disk, func(a Amount) int64 { return a.Disk }}, // in MiB
}

// lease limits leases; a zero time limits nothing.
type lease struct{ first, longest, renew time.Duration }

// Files returns the files that Load has read. Call Load again when one of these files changes.
func (r *Rules) Files() []string {
	if r == nil {
		return nil
	}
	return r.files
}

// Len returns the number of rules.
func (r *Rules) Len() int {
	if r == nil {
		return 0
	}
	return len(r.list)
}

// find returns the first rule that matches, or else r.otherwise. nil allows everything.
func (r *Rules) find(user, slice urn.URN) *Rule {
	if r == nil {
		return nil
	}
	who, project := nameOf(user.Authority, user.Name), nameOf(am.ProjectOf(slice), "")
	for _, x := range r.list {
		if x.matches(user.Type, &who, &project) {
			return x
		}
	}
	return r.otherwise
}

// matches reports whether the rule applies to a user in a project. kind is the type in the user's URN. A rule with the key who applies only to
// users.
func (x *Rule) matches(kind string, user, project *pattern) bool {
	if x.who != nil && (kind != urn.User || !anyCovers(x.who, user)) {
		return false
	}
	return x.projects == nil || anyCovers(x.projects, project)
}

func anyCovers(all []pattern, q *pattern) bool {
	for i := range all {
		if all[i].covers(q) {
			return true
		}
	}
	return false
}

// shadows reports whether y never applies if it follows x.
func (x *Rule) shadows(y *Rule) bool {
	return coversAll(x.who, y.who) && coversAll(x.projects, y.projects)
}

// coversAll reports whether the patterns of outer cover each pattern of inner. nil stands for all
// names.
func coversAll(outer, inner []pattern) bool {
	if outer == nil {
		return true
	}
	for i := range inner {
		if !anyCovers(outer, &inner[i]) {
			return false
		}
	}
	return inner != nil
}
