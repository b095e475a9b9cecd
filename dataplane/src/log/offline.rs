//! `finish | cut | check DIR`: work on the directory of a partition that no data plane serves.
