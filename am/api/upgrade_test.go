package api

import (
	"testing"
	"time"

	"patchbay/credentials/cert"
)

// TestUpgradeKeepsLeases serves a store of the last schema without reservations that begin later. Leases, holds and Renew are as
// before, and others can reserve from their ends on.
func TestUpgradeKeepsLeases(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) // of the sample in package store
	trial := newAuthority(t, t.TempDir(), noon)
	anchors, err := cert.ParsePEM(trial.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	w := setting{began: noon, records: "../store/testdata/schema5.db.gz", anchors: cert.NewAnchors(cert.Anchor{Certificate: anchors[0]})}.world(t)
	w.trial = trial
	w.play(`
		alice owns alpha 10d
		alice owns beta 10d
		alice owns gamma 10d
		bob owns s1 10d
		alice Status alpha -> node0:allocated node2:notready node4:ready node0@+24h node2@+22h node4@+20h !"geni_start_time"
		alice Status beta -> node1:pending_allocation node3:configuring node5:failed node1@+23h node3@+21h node5@+19h
		alice Status gamma -> FORBIDDEN
		bob Allocate s1 a@pc2 geni_end_time=+1h -> TOOBIG
		bob Allocate s1 a@pc5 geni_start_time=+18h -> TOOBIG
		bob Allocate s1 a@pc7 geni_start_time=+48h -> TOOBIG
		bob Allocate s1 a@pc5 geni_start_time=+19h geni_end_time=+30h
		alice Renew alpha.node2 alpha.node4 +23h -> @+23h
		alice Renew beta.node5 +20h -> REFUSED "a reservation that begins then"
		alice Renew beta.node5 +20h geni_extend_alap=true -> @+19h
		bob Allocate s1 b@pc2 geni_start_time=+22h -> TOOBIG
		bob Allocate s1 b@pc2 geni_start_time=+23h
		pass 19h
		expire
		settle
		begin
		bob Provision s1.a -> @+11h
		alice Status beta -> #2
	`)
}
