//! Settings that are worked out from others.

use super::good;

#[test]
fn a_lower_limit_of_the_message_alone_lowers_the_frames_too() {
    assert_eq!(good("limits.max_message_size = \"1MiB\"").conn.max_frame_size, 1 << 20);
    assert_eq!(good("limits.max_message_size = \"8MiB\"").conn.max_frame_size, 4 << 20);
}

#[test]
fn compression_is_off_unless_it_is_enabled() {
    assert_eq!(good("compression.level = 6").conn.compression, None);
    let text = "compression.enabled = true\ncompression.server_max_window_bits = 9";
    let compression = good(text).conn.compression.unwrap();
    assert_eq!(compression.policy.server_max_window_bits.get(), 9);
    assert_eq!(compression.policy.client_max_window_bits.get(), 15);
    assert!(!compression.policy.context_takeover);
    assert_eq!((compression.settings.level, compression.settings.mem_level), (1, 8));
}
