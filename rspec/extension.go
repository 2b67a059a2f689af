package rspec

// RequestExtensions returns the namespaces of the extensions that have an effect in
// requests to the site, or that its manifests contain. Other extensions in a request are
// only copied to the manifest.
func (s *Site) RequestExtensions() []string {
	spaces := []string{userSpace, proxySpace, emulabSpace, matchSpace, netSpace, originSpace, setupSpace, toscaSpace, toscaBase}
	if s.Leases {
		spaces = append(spaces, nitosSpace)
	}
	if s.Templates {
		spaces = append(spaces, templateSpace)
	}
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
