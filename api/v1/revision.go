package fencingv1

// RevisionHeader is the response header of GetAll and StreamEvents with the number of
// events published before the answer, in decimal.
const RevisionHeader = "fencing-revision"
