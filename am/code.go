package am

// Code is a geni_code: the result of a call on the wire.
type Code int

// The codes that this server returns. Numbers 18 to 28 of later drafts confuse
// deployed clients, so they appear only as Detail. The exception is 24, because
// stitching tools retry when they receive it.
const (
	Success      Code = 0
	BadArgs      Code = 1
	ErrorCode    Code = 2
	Forbidden    Code = 3
	BadVersion   Code = 4
	ServerError  Code = 5
	TooBig       Code = 6
	Refused      Code = 7
	TimedOut     Code = 8
	DBError      Code = 9
	RPCError     Code = 10
	Unavailable  Code = 11
	SearchFailed Code = 12
	Unsupported  Code = 13
	Busy         Code = 14
	Expired      Code = 15
	InProgress   Code = 16
	Exists       Code = 17
	NoVLAN       Code = 24
	ServerBusy   Code = -32001
)

var codeNames = map[Code]string{
	Success: "SUCCESS", BadArgs: "BADARGS", ErrorCode: "ERROR", Forbidden: "FORBIDDEN", BadVersion: "BADVERSION",
	ServerError: "SERVERERROR", TooBig: "TOOBIG", Refused: "REFUSED", TimedOut: "TIMEDOUT", DBError: "DBERROR",
	RPCError: "RPCERROR", Unavailable: "UNAVAILABLE", SearchFailed: "SEARCHFAILED", Unsupported: "UNSUPPORTED",
	Busy: "BUSY", Expired: "EXPIRED", InProgress: "INPROGRESS", Exists: "ALREADYEXISTS", NoVLAN: "VLAN_UNAVAILABLE", ServerBusy: "SERVERBUSY",
}

// String returns the code's name in the specification.
func (c Code) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return "UNKNOWN"
}

// Detail is an am_code of am_type "patchbay": a more detailed reason than geni_code
// can express. Its numbers come from the later AM API drafts.
type Detail int

// The detailed reasons.
const (
	NoDetail              Detail = 0
	MissingArgs           Detail = 18
	OutOfRange            Detail = 19
	CredentialInvalid     Detail = 20
	CredentialExpired     Detail = 21
	CredentialMismatch    Detail = 22
	CredentialUntrusted   Detail = 23
	VLANUnavailable       Detail = 24
	InsufficientBandwidth Detail = 25
	InsufficientNodes     Detail = 26
)

// AMType is the name space of Detail on the wire.
const AMType = "patchbay"
