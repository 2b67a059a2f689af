package api

import "testing"

// TestReservationAhead follows a reservation from Allocate to its end.
func TestReservationAhead(t *testing.T) {
	newWorld(t).play(`
		alice owns s1 10d
		alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h -> a:allocated a:pending_allocation @+2h30m "geni_start_time"
		alice Provision s1 -> UNAVAILABLE "begins at"
		pass 2h
		begin
		alice Status s1 -> a:allocated @+30m
		alice Provision s1 -> @+3h
		settle
		alice Status s1 -> a:notready a:provisioned @+3h
		pass 3h
		expire
		alice Status s1 -> SEARCHFAILED
	`)
}
