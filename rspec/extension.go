package rspec

// RequestExtensions returns the namespaces of the extensions that requests to the
// site may use or its manifests contain. All other extensions are copied.
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
