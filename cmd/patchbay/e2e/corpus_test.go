package e2e

import (
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/wait"
)

// corpusOutcome is the result of a request.
type corpusOutcome struct {
	links, linksRight int
	steps             map[string]int // by state
	kind, words       string
}

// The kinds of outcomes, besides "refused CODE".
const (
	corpusReady  = "ready"
	corpusErrors = "ready with errors"
	corpusFailed = "failed"
)

// runRequest allocates, provisions and starts a request, checks its links and steps, and
// deletes its slivers.
func (s *corpusSite) runRequest(ctx context.Context, number int, r *corpusRequest) (o corpusOutcome) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	broken := func(what string, err error) corpusOutcome {
		o.kind, o.words = corpusFailed, what+": "+err.Error()
		return o
	}
	now := time.Now()
	slice, _, _, err := s.trial.WriteSlice(fmt.Sprintf("c%d", number), "alice", now.Add(24*time.Hour), now)
	if err != nil {
		return broken("slice", err)
	}
	urn, creds := slice.URN.String(), []client.Credential{{Text: string(slice.Credential)}}
	urns := []string{urn}
	if _, reply, err := s.client.Allocate(ctx, urn, creds, r.text, client.Options{}); reply.Code != am.Success {
		if reply.Code == 0 {
			return broken("Allocate", err)
		}
		o.kind, o.words = fmt.Sprintf("refused %d", reply.Code), reply.Output
		return o
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
		defer cancel()
		if _, _, err := s.client.Delete(ctx, urns, creds, client.Options{}); err != nil {
			o = broken("Delete", err)
		}
	}()
	user := client.User{URN: s.alice.URN.String(), Keys: []string{string(s.alice.SSHPublicKey)}}
	if _, _, err := s.client.Provision(ctx, urns, creds, client.Options{Users: []client.User{user}}); err != nil {
		return broken("Provision", err)
	}
	if _, err := s.awaitState(ctx, urns, creds, am.NotReady); err != nil {
		return broken("Provision", err)
	}
	if _, _, err := s.client.PerformOperationalAction(ctx, urns, creds, string(am.ActionStart), client.Options{}); err != nil {
		return broken("start", err)
	}
	if _, err := s.awaitState(ctx, urns, creds, am.Ready); err != nil {
		return broken("start", err)
	}
	a, _, err := s.client.Describe(ctx, urns, creds, client.Options{})
	if err != nil {
		return broken("Describe", err)
	}
	if err := s.checkLinks(ctx, a.RSpec, &o); err != nil {
		return broken("links", err)
	}
	slivers, err := s.stepsDone(ctx, urns, creds)
	if err != nil {
		return broken("steps", err)
	}
	o.kind, o.steps = corpusReady, make(map[string]int)
	for _, x := range slivers {
		for _, v := range x.Services {
			o.steps[v.State]++
		}
		if x.Error != "" {
			o.kind = corpusErrors
			o.words += x.Error
		}
	}
	return o
}

// awaitState waits until all slivers are in a state.
func (s *corpusSite) awaitState(ctx context.Context, urns []string, creds []client.Credential, state am.OperationalState) ([]client.Sliver, error) {
	for {
		a, _, err := s.client.Status(ctx, urns, creds, client.Options{})
		if err != nil {
			return nil, err
		}
		other := slices.IndexFunc(a.Slivers, func(x client.Sliver) bool { return x.Operational != string(state) })
		switch {
		case other < 0:
			return a.Slivers, nil
		case anyFailed(a.Slivers):
			return nil, fmt.Errorf("%s is %s: %s", a.Slivers[other].ClientID, a.Slivers[other].Operational, a.Slivers[other].Error)
		}
		if err := sleep(ctx); err != nil {
			return nil, fmt.Errorf("%s is %s", a.Slivers[other].ClientID, a.Slivers[other].Operational)
		}
	}
}

// stepsDone waits until the steps of all slivers have ended, with a limit, since some
// never end.
func (s *corpusSite) stepsDone(ctx context.Context, urns []string, creds []client.Credential) ([]client.Sliver, error) {
	for end := time.Now().Add(time.Minute); ; {
		a, _, err := s.client.Status(ctx, urns, creds, client.Options{})
		if err != nil {
			return nil, err
		}
		going := slices.ContainsFunc(a.Slivers, func(x client.Sliver) bool {
			return slices.ContainsFunc(x.Services, func(v client.Service) bool { return v.State != "done" && v.State != "failed" })
		})
		if !going || time.Now().After(end) {
			return a.Slivers, nil
		}
		if err := sleep(ctx); err != nil {
			return nil, err
		}
	}
}

// greets connects from a node to port 22 of other nodes, and prints who answered. If
// several links of a node use one network, its routes choose the link; then it sends an
// ARP request on the interface, which the right MAC must answer. Its arguments are its
// own MAC, and the other's MAC and address.
const greets = `greet() {
	for i in $(seq 20); do
		timeout 2 bash -c 'exec 3<>/dev/tcp/$0/22; IFS= read -r line <&3; [[ $line = SSH-2.0* ]]' $3 2>/dev/null && echo $1 $3 && return
		sudo perl -e '
			use strict; use Socket;
			my ($own, $other, $address) = @ARGV;
			sub first { open my $f, "<", $_[0] or die; chomp(my $line = <$f>); $line }
			my ($device) = grep { first("$_/address") eq $own } glob "/sys/class/net/*";
			my $mac = pack "H12", $own =~ s/://gr;
			socket my $s, 17, SOCK_RAW, unpack "S", pack "n", 0x806 or die;
			bind $s, pack "Sa2ISCCa8", 17, pack("n", 0x806), first("$device/ifindex"), 0, 0, 0, "" or die;
			my $host = inet_aton $address or die;
			send $s, "\xff" x 6 . $mac . pack("nnnCCn", 0x806, 1, 0x800, 6, 4, 1) . $mac . "\0" x 4 . "\0" x 6 . $host, 0 or die;
			$SIG{ALRM} = sub { exit 1 }; alarm 2;
			while (defined recv $s, my $frame, 2048, 0) {
				my ($op, $from, $who) = unpack "x20 n H12 a4", $frame;
				exit !($from eq $other =~ s/://gr) if $op == 2 and $who eq $host;
			}' $1 $2 $3 && echo $1 $3 && return
	done
}
`

// checkLinks sends traffic from each end of each link to the next, and back.
func (s *corpusSite) checkLinks(ctx context.Context, manifest string, o *corpusOutcome) error {
	var doc corpusDocument
	if err := xml.Unmarshal([]byte(manifest), &doc); err != nil {
		return err
	}
	doors, err := logins(manifest)
	if err != nil {
		return err
	}
	at := make(map[string]login)
	for _, l := range doors {
		at[l.node] = l
	}
	type end struct {
		node, mac string
		addresses []string
	}
	ends := make(map[string]end)
	for _, n := range doc.Nodes {
		for _, i := range n.Interfaces {
			e := end{node: n.ClientID, mac: i.MAC}
			for _, a := range i.Addresses {
				e.addresses = append(e.addresses, a.Address)
			}
			ends[i.ClientID] = e
		}
	}
	type try struct {
		link                int
		own, other, address string
	}
	tries := make(map[string][]try) // by node
	o.links = len(doc.Links)
	for i, l := range doc.Links {
		for k, ref := range l.Refs {
			from, to := ends[ref.ClientID], ends[l.Refs[(k+1)%len(l.Refs)].ClientID]
			if from.node == to.node {
				continue
			}
			for _, a := range to.addresses {
				tries[from.node] = append(tries[from.node], try{i, from.mac, to.mac, a})
			}
		}
	}
	wrong := make(map[int]bool)
	var mu sync.Mutex // guards wrong and o
	var group sync.WaitGroup
	places := make(chan struct{}, 8)
	for _, node := range slices.Sorted(maps.Keys(tries)) {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			script := greets
			for _, x := range tries[node] {
				script += fmt.Sprintln("greet", x.own, x.other, x.address)
			}
			out, err := s.run(ctx, at[node], script)
			mu.Lock()
			defer mu.Unlock()
			for _, x := range tries[node] {
				if !strings.Contains(out, x.own+" "+x.address+"\n") {
					wrong[x.link] = true
					o.words += fmt.Sprintf("%s does not reach %s at %s (%v); ", node, x.address, doc.Links[x.link].ClientID, err)
				}
			}
		})
	}
	group.Wait()
	o.linksRight = o.links - len(wrong)
	return nil
}

// TestOnHostCorpusRequestsRun runs real requests from the field on a site with real
// nodes.
func TestOnHostCorpusRequestsRun(t *testing.T) {
	t.Parallel() // it mostly waits
	requests := readCorpus(t)
	all := os.Getenv("PATCHBAY_CORPUS_ALL") != ""
	if !all {
		requests = slices.DeleteFunc(requests, func(r *corpusRequest) bool { _, ok := corpusSample[r.name]; return !ok })
		if len(requests) != len(corpusSample) {
			t.Fatalf("the corpus has %d requests of the sample, not %d", len(requests), len(corpusSample))
		}
	}
	s := newCorpusSite(t, requests)
	outcomes := make([]corpusOutcome, len(requests))
	var group sync.WaitGroup
	places := make(chan struct{}, 4)
	for i, r := range requests {
		if r.isExclusive() {
			continue
		}
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			outcomes[i] = s.runRequest(t.Context(), i, r)
		})
	}
	group.Wait()
	s.awaitEmpty()
	for i, r := range requests {
		if r.isExclusive() {
			outcomes[i] = s.runRequest(t.Context(), i, r)
			s.awaitEmpty()
		}
	}
	counts := make(map[string]int)
	for i, o := range outcomes {
		r := requests[i]
		counts[o.kind]++
		t.Logf("%s: %d of %d links, %v steps, %s %s", r.name, o.linksRight, len(r.doc.Links), o.steps, o.kind, o.words)
		if o.kind == corpusFailed || o.linksRight != o.links {
			t.Errorf("%s: %s: %s", r.name, o.kind, o.words)
		}
		if want := corpusSample[r.name]; !all && o.kind != want {
			t.Errorf("%s: %s, not %s: %s", r.name, o.kind, want, o.words)
		}
	}
	t.Logf("%v", counts)
	if all && !maps.Equal(counts, corpusCounts) {
		t.Errorf("outcomes %v, not %v", counts, corpusCounts)
	}
}

// awaitEmpty waits until no sliver is left.
func (s *corpusSite) awaitEmpty() {
	s.t.Helper()
	wait.Until(s.t, "an empty site", func() bool {
		ad, _, err := s.client.ListResources(s.t.Context(), s.creds, client.Options{})
		return err == nil && strings.Contains(ad, `type_slots="1000"`)
	})
}

// corpusSample are the requests that make test runs, with their outcomes.
var corpusSample = map[string]string{
	"commag-rspec.xml":                                         corpusReady, // six links
	"omn-instageni-insta-20vm-1lan.xml":                        corpusReady, // a LAN of twenty
	"genilibgen-asymmetric-lan.xml":                            corpusReady, // capacity and latency for each pair
	"genilibgen-asymmetric-link.xml":                           corpusReady, // loss, too
	"omn-gpolab-32.xml":                                        corpusReady, // one network on several links
	"portal-portal-db-postgresql-data_10.xml":                  corpusReady, // a shaping node in the link
	"genilib-tools-scaleup-sample_output_rspec-ring10-1am.xml": corpusReady, // eighty steps
	"tut-LabOne-ccnx-lab1ccn-3node-jfed-rawpc.xml":             corpusReady, // an exclusive machine
	"gcf-gib-rspec-examples-install-example.xml":               corpusReady, // a script at a URL with a query
	"omn-openflow-compute-eg-renci.xml":                        corpusErrors,
	"emudev-protogeni-test-shaped-v2.xml":                      "refused 4",
	"opsmon-extck-stitching-template.xml":                      "refused 12",
}

// corpusCounts has the numbers of all outcomes. Errors are of commands that need the
// Internet, mostly to install packages. Refused are languages older than GENI 3, and a
// template without a manager.
var corpusCounts = map[string]int{corpusReady: 185, corpusErrors: 61, "refused 4": 16, "refused 12": 1}
