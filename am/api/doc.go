// Package api speaks the GENI Aggregate Manager API, versions 2 and 3. It decodes
// the arguments of a call, has the caller's right checked, calls the aggregate,
// and encodes the result as {code, value, output}.
//
//	Call ─ method table ─> arguments ─ Authorize ─> Grant ─> Aggregate ─> Outcome ─> envelope
//
// The method tables are data, one for each version over the same aggregate: a
// row says the wire name, the arguments in order, the options, the right asked
// and the handler; the README's tables are made of them. Errors become codes in
// one place, codeOf. What is broken XML-RPC is a Fault; everything else is an
// envelope. Of several mistakes in a call the first is told, in the order:
// arguments, caller, credentials, a slice that is shut down, what is not there,
// options, the work.
//
// ListResources is a prepared answer: the complete body, made by the first
// reader after a change.
//
// It knows neither HTTP nor the store. It answers AM API v2 and v3, all
// methods, and "Return struct".
//
// # Decisions
//
//   - early options: options that decide the right are read before the caller is authorized, the
//     others after. So a caller without the right learns nothing more: [option].
//   - advertisement: each encoding is prepared as one complete body, and the first reader after a
//     change renews it. So TLS is the limit of its speed: [preparedAnswer].
package api
