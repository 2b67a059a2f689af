package policy

import (
	"time"

	"patchbay/am/urn"
	"patchbay/inventory/yamlfile"
)

// Rules are a policy file as it was read. They do not change.
type Rules struct {
	list []*Rule
	// otherwise is for whom no rule fits; nil allows all.
	otherwise *Rule
	file      string
	files     []string // that were read
	remarks   []yamlfile.Problem
}

// Rule is one entry of the file.
type Rule struct {
	// Name stands in refusals and in the log; "" for what holds otherwise.
	Name string
	line int

	who      []pattern // of users; none: all
	projects []pattern // authorities of slices; none: all

	types      []string // names of sliver types; nil: all
	components *part    // nil: all
	limits     [len(counted)]most
	lease      lease
	refuse     string // in these words; "" does not refuse
	says       string
	terms      *terms
	// Why not another component or sliver type.
	noComponent, noType string
}

// part is a part of the site's components.
type part struct {
	list []int32 // indexes in the inventory, ascending
	text string  // as written
}

// most is how much may be held at one time; unlimited for any amount.
type most struct{ user, slice, project int64 }

const unlimited = -1

var (
	boundless = most{unlimited, unlimited, unlimited}
	noLimits  = [len(counted)]most{boundless, boundless, boundless}
)

// counted are what rules limit: by its key in the file, the word for one of it, and
// its number in an Amount.
var counted = [...]struct {
	key, one string
	of       func(Amount) int64
}{
	{"nodes", "node", func(a Amount) int64 { return a.Nodes }},
	{"cores", "core", func(a Amount) int64 { return a.Cores }},
	{disk, disk, func(a Amount) int64 { return a.Disk }}, // in MiB
}

// lease is how long slivers may live; a zero time limits nothing.
type lease struct{ first, longest, renew time.Duration }

// Files are the files that were read: when one of them changes, the rules are to
// be read again.
func (r *Rules) Files() []string {
	if r == nil {
		return nil
	}
	return r.files
}

// Len is the number of rules.
func (r *Rules) Len() int {
	if r == nil {
		return 0
	}
	return len(r.list)
}

// find is the rule that decides; nil for none, so that all is allowed.
func (r *Rules) find(user, slice urn.URN) *Rule {
	if r == nil {
		return nil
	}
	who, project := nameOf(user.Authority, user.Name), nameOf(slice.Authority, "")
	for _, x := range r.list {
		if x.fits(user.Type, &who, &project) {
			return x
		}
	}
	return r.otherwise
}

// fits tells whether the rule is for what somebody does in a slice of a project.
// Who is of another type than user is fitted only by rules for all.
func (x *Rule) fits(kind string, who, project *pattern) bool {
	if x.who != nil && (kind != urn.User || !anyCovers(x.who, who)) {
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

// hides tells whether nobody for whom y is gets beyond x.
func (x *Rule) hides(y *Rule) bool {
	return coversAll(x.who, y.who) && coversAll(x.projects, y.projects)
}

// coversAll tells whether each of inner lies within one of outer; none is all.
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
