// Package web serves the pages of a site: what is free, the experiments of members, and the work of
// operators.
//
//	browser ──> Pages.ServeHTTP ── route ──> handler(*request)
//	              member's page ── Config.Transport ──> the site's own API and authority, as that member
//	            operator's page ── Config.Admin ──────> the operators' endpoints of the admin socket
//	             event stream ──── Config.Changed ────> "changed": the script fetches the page again
//
// Pages decide no rights of their own. A member's page is a client: it calls the API and the
// authority with the certificate that the authority has issued to the member, so the deny list,
// revocation, policy, limits and audit apply as for any other client. An operator's page uses the endpoints of
// the operators' commands. What a member may not see does not exist for them: 404.
//
// A page is HTML of a template of the same name. It works without script: forms are POST
// requests, which answer with a redirect, and the next page shows the result once. With script, a page with
// data-live has an event stream; after each event the script fetches the page again, and replaces the elements
// with data-part.
//
// # Decisions
//
//   - a session's cookie has 256 random bits, and the authority keeps its hash: [request.readVisitor].
//   - a member who is signed in makes their own link for the next time, for as long as a session may last, since
//     students have only a browser; an operator's sign-out ends it: [request.makeLink].
//   - students see only the request of their class, each in one experiment of their own. The API allows them
//     more, as far as policy does: [request.showForm].
//   - the calendar is public, so it names slices only to their members. Its pictures have coordinates in percent, so that one picture
//     fits all widths with text of one size: [calendarBody.Picture].
//   - a visitor who must sign in first comes back to the time that they chose, by a cookie, since the link of a mail knows nothing of it:
//     [request.signIn].
//   - a check of a later time creates the slice, since the API previews only in one: [request.start].
//   - a calendar program has no session: it shows a secret of its own, of which the authority keeps the hash, and which shows only the
//     member's experiments. An operator's sign-out ends it: [request.sendFeed].
//   - texts of members, nodes and providers reach pages only through html/template, and pictures
//     only as SVG of rspec/draw or of a template. The Content-Security-Policy allows no inline script or style: [Pages.ServeHTTP].
//   - at most two pages of one caller are made at the same time, so that a flood delays its own pages: [turns].
package web
