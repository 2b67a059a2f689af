package rspec

// RequestExtensions are the namespaces of the extensions that are understood in
// requests to the site, or told in its manifests. All others are copied.
func (s *Site) RequestExtensions() []string {
	spaces := []string{userSpace, proxySpace, emulabSpace}
	if s.SliverInfo {
		spaces = append(spaces, sliverSpace)
	}
	if len(s.SharedVLANs) > 0 {
		spaces = append(spaces, sharedVLANSpace, oldSharedVLANSpace)
	}
	if s.Monitoring != nil {
		spaces = append(spaces, monitoringSpace, oldMonitoringSpace)
	}
	return spaces
}
