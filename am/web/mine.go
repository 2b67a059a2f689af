package web

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/authority"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/urn"
)

var mineRoutes = []route{
	{"GET /ui/mine", members, (*request).showMine, (*request).mineRevision},
	{"POST /ui/mine/keys", members, (*request).changeKeys, nil},
	{"POST /ui/mine/link", members, (*request).makeLink, nil},
	{"POST /ui/mine/sign-out", members, (*request).signOutEverywhere, nil},
}

// mineBody is the data of templates/mine.html.
type mineBody struct {
	*request
	Experiments     []experimentRow
	Ended           []experimentRow // had nodes before
	Projects        []projectRecord
	Offers          []offer // that do not run
	Key, KeyProblem string  // of the form
	Link            string  // a new one, which ends at LinkEnds
	LinkEnds        time.Time
	Feed            string // the link of a new calendar feed
}

// experimentRow is a slice of the visitor.
type experimentRow struct {
	sliceRecord
	State, Summary string
	Slivers        []client.Sliver
	Ends           time.Time // zero without nodes
	Begins         time.Time // zero if a node has begun
}

// offer is a project with a request for each member. Path is the page that starts it, or of the experiment if it runs.
type offer struct {
	projectRecord
	Path string
	Runs bool
}

// offers returns the offers of projects to the visitor, who has a list of experiments.
func (q *request) offers(projects []projectRecord, list []experimentRow) (offers []offer) {
	for _, p := range projects {
		if p.Request == "" || !p.CanStart() {
			continue
		}
		o := offer{p, "/ui/start/" + p.URN.Name + "/" + sliceName(q.visitor.Member.Name), false}
		for _, e := range list {
			if e.Project.Equal(p.URN) && e.Role == authority.Lead && !e.Ends.IsZero() {
				o.Path, o.Runs = e.Path(), true
			}
		}
		offers = append(offers, o)
	}
	return offers
}

// showMine shows what the visitor has: experiments, projects, SSH keys and sessions.
func (q *request) showMine() error { return q.renderMine(mineBody{}) }

// renderMine completes the body of the page, and shows it.
func (q *request) renderMine(x mineBody) (err error) {
	x.request = q
	if x.Projects, err = q.projects(); err != nil {
		return err
	}
	list, err := q.experiments(x.Projects)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !e.Ends.IsZero() || e.State == unavailable {
			x.Experiments = append(x.Experiments, e)
			continue
		}
		entries, err := q.journalOf(e.sliceRecord)
		if err != nil {
			return err
		}
		if n := len(entries); n > 0 { // others never had nodes
			e.Ends = entries[n-1].At
			x.Ended = append(x.Ended, e)
		}
	}
	slices.SortStableFunc(x.Experiments, func(a, b experimentRow) int { return a.Begins.Compare(b.Begins) })
	x.Offers = slices.DeleteFunc(q.offers(x.Projects, list), func(o offer) bool { return o.Runs || o.IsTaught() })
	return q.render(page{Name: "mine", Title: "Mine", Tab: "mine", Body: x})
}

// Keys returns the SSH keys of the visitor, and Sessions their sessions.
func (q *request) Keys() ([]keyRecord, error) { return q.keysOf(q.visitor.Member.String()) }
func (q *request) Sessions() ([]authority.Visitor, error) {
	return q.Authority.SessionsOf(q.visitor.Member, q.now)
}

// LinkEnd returns the end of the visitor's link; zero if there is none that can be used.
func (q *request) LinkEnd() (time.Time, error) { return q.Authority.LinkEnd(q.visitor.Member, q.now) }

// mineRevision is a number that differs after each change of the visitor's experiments.
func (q *request) mineRevision() (n uint64, err error) {
	roles, err := q.roles("SLICE")
	for _, key := range slices.Sorted(maps.Keys(roles)) {
		u, _ := urn.Parse(key) // the authority's own
		revision, failed := q.SliceRevision(u)
		n, err = n*31+revision+1, cmp.Or(err, failed)
	}
	return n, err
}

// experiments returns the slices in which the visitor has a role, without those of their students, in the order of their
// names.
func (q *request) experiments(projects []projectRecord) (list []experimentRow, err error) {
	roles, err := q.roles("SLICE")
	if err != nil || len(roles) == 0 {
		return nil, err
	}
	records, err := recordsOf(q.authorityCall("sa", "lookup", "SLICE", xmlrpc.Struct{}))
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		s, err := r.slice()
		if err != nil {
			return nil, err
		}
		s.Role = roles[r.key]
		isTaught := slices.ContainsFunc(projects, func(p projectRecord) bool { return p.URN.Equal(s.Project) && p.IsTaught() })
		if s.Role == "" || s.Role != authority.Lead && isTaught {
			continue
		}
		list = append(list, q.experimentRow(s))
	}
	slices.SortFunc(list, func(a, b experimentRow) int { return strings.Compare(a.names(), b.names()) })
	return list, nil
}

// experimentRow asks the aggregate for the state of a slice.
func (q *request) experimentRow(s sliceRecord) experimentRow {
	x := experimentRow{sliceRecord: s, State: "expired"}
	if s.IsExpired {
		return x
	}
	_, list, err := q.openWithNodes(s)
	x.Slivers, x.Ends = list, experiment.EarliestEnd(list)
	if w := waitingOf(list, q.now); w.IsAll {
		x.Begins = w.Begins
	}
	if x.State, x.Summary = summarize(list); err != nil {
		x.State, x.Summary = unavailable, errorText(err)
	}
	return x
}

// changeKeys adds an SSH key to those of the visitor, or removes one.
func (q *request) changeKeys() (err error) {
	what, id := "added. New nodes get it", q.r.FormValue("remove")
	if id != "" {
		what = "removed. New nodes do not get it"
		_, err = q.authorityCall("ma", "delete", "KEY", id, xmlrpc.Struct{})
	} else {
		err = q.addKey(q.r.FormValue("key"))
	}
	if err != nil {
		return q.renderMine(mineBody{Key: withoutPrivate(q.r.FormValue("key")), KeyProblem: "No key was added: " + errorText(err) + "."})
	}
	return q.redirect("/ui/mine", done("The key is %s. For nodes that run, choose Update SSH keys on the page of the experiment.", what))
}

// signOutEverywhere ends all sessions and links of the visitor, with this one.
func (q *request) signOutEverywhere() error {
	if _, err := q.Authority.SignOut(q.visitor.Member.Name); err != nil {
		return err
	}
	return q.showSignedOut()
}

// makeLink shows a link by which the visitor signs in again, or in another browser.
func (q *request) makeLink() error {
	secret, ends, err := q.Authority.NewLink(q.visitor.Member.Name, authority.SessionLife, q.now)
	if err != nil {
		return err
	}
	return q.renderMine(mineBody{Link: q.URL + authority.SignInPath + secret, LinkEnds: ends})
}
