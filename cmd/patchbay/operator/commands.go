package operator

import "patchbay/cmd/patchbay/command"

// Commands returns the commands that are for the operators of a site.
func Commands() []command.Command {
	return []command.Command{
		{Use: "lockdown [--reason TEXT]", Short: "Accept no new reservations", Long: lockdownLong, Options: &lockdownOptions{}, Arguments: command.SomeOf(), Example: `  patchbay lockdown --reason 'moving to another building until Friday'
  patchbay lockdown --lift`},
		{Use: "maintenance [COMPONENT … --reason TEXT]", Short: "Plan maintenance of components", Long: maintenanceLong, Options: &maintenanceOptions{}, Arguments: (*command.Completion).Components, Example: `  patchbay maintenance pc1..pc4 --from 2030-01-31T08:00:00Z --for 4h --reason 'new disks'
  patchbay maintenance --all --for 2h --reason 'power cut'
  patchbay maintenance
  patchbay maintenance --lift 1`},
		{Use: "slices [PATTERN]", Short: "List slices", Long: slicesLong, Options: &slicesOptions{}, Arguments: (*command.Completion).SiteSlices, Example: `  patchbay slices
  patchbay slices --ends-before 24h`},
		{Use: "slivers [PATTERN]", Short: "List slivers, with their users and leases", Long: sliversLong, Options: &sliversOptions{}, Arguments: (*command.Completion).SiteSlices, Example: `  patchbay slivers
  patchbay slivers first --wide
  patchbay slivers --state failed`},
		{Use: "nodes [PATTERN]", Short: "List nodes, with their state and use", Long: nodesLong, Options: &nodesOptions{}, Arguments: (*command.Completion).Components, Example: `  patchbay nodes
  patchbay nodes pc1..pc4
  patchbay nodes --state drained --json`},
		{Use: "calendar [PATTERN]", Short: "Draw when nodes are held and reserved", Long: calendarLong, Options: &calendarOptions{}, Arguments: (*command.Completion).Components, Example: `  patchbay calendar
  patchbay calendar pc1..pc4 --from 'tomorrow 9:00' --days 2
  patchbay calendar --user alice --json`},
		{Use: "tasks [PATTERN]", Short: "List pending provider tasks", Long: tasksLong, Options: &tasksOptions{}, Arguments: (*command.Completion).SiteSlices, Example: `  patchbay tasks
  patchbay tasks --provider local`},
		{Use: "journal [PATTERN]", Short: "List past operations, with their users", Long: journalLong, Options: &journalOptions{}, Arguments: (*command.Completion).SiteSlices, Example: `  patchbay journal
  patchbay journal first --since 2h
  patchbay journal --event Allocate --user alice`},
		{Use: "usage [--from TIME --until TIME]", Short: "List node-hours by user, project and type", Long: usageLong, Options: &usageOptions{}, Arguments: command.SomeOf(), Example: `  patchbay usage
  patchbay usage --from 2030-01-01T00:00:00Z --until 2030-02-01T00:00:00Z --csv`},
		{Use: "manifest SLICE", Short: "Print the manifest of a slice", Long: manifestLong, Options: &manifestOptions{}, Arguments: (*command.Completion).SiteSlices, Example: `  patchbay manifest first`},
		{Use: "release TARGET …", Short: "Take slivers from their users", Long: releaseLong, Options: &releaseOptions{}, Arguments: (*command.Completion).SiteSlices, Example: `  patchbay release first
  patchbay release first/server --reason 'node is broken'`},
		{Use: "renew TARGET …", Short: "Change the end of leases", Long: renewLong, Options: &renewOptions{}, Arguments: (*command.Completion).SiteSlices, Example: `  patchbay renew first --for 3d
  patchbay renew first --until 2030-01-31T12:00:00Z`},
		{Use: "drain [COMPONENT …]", Short: "Take components out of service; existing slivers stay", Long: drainLong, Options: &drainOptions{}, Arguments: (*command.Completion).Components, Example: `  patchbay drain pc3 --reason 'disk is failing'
  patchbay drain pc1..pc4
  patchbay drain`},
		{Use: "undrain COMPONENT …", Short: "Put drained components back into service", Long: undrainLong, Options: &drainOptions{lift: true}, Arguments: (*command.Completion).Components, Example: `  patchbay undrain pc1..pc4`},
		{Use: "shutdown SLICE --reason TEXT", Short: "Stop a slice, and keep its nodes for inspection", Long: shutdownLong, Options: &shutdownOptions{}, Arguments: (*command.Completion).SiteSlices, Example: `  patchbay shutdown first --reason 'it attacks other hosts'`},
		{Use: "thaw [SLICE]", Short: "Lift the shutdown of a slice", Long: thawLong, Options: &thawOptions{}, Arguments: (*command.Completion).SiteSlices, Example: `  patchbay thaw
  patchbay thaw first --extend 2h`},
		{Use: "who ADDRESS[:PORT] [FILE …]", Short: "Find who used an IP address at a given time", Long: whoLong, Options: &whoOptions{}, Example: `  patchbay who 192.0.2.7
  patchbay who 192.0.2.7:20001 --at 2030-01-31T12:00:00Z`},
	}
}
