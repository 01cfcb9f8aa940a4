;; The embedded echo plugin: a component that sends each message back to its connection.
;;
;; Written by hand because it must exist without any toolchain, and as the smallest example of
;; what every plugin is: it imports one function and exports `handler`. The types are those of
;; `wit/`, in the component model's own notation.
(component
  ;; `types`: nothing but types, so nobody has to serve it.
  (import "plugsock:plugin/types@0.1.0" (instance $types
    (type $message (variant (case "text" string) (case "binary" (list u8))))
    (export "message" (type (eq $message)))
    (type $close-frame (record (field "code" u16) (field "reason" string)))
    (export "close-frame" (type (eq $close-frame)))
    (type $effect-error (variant
      (case "not-open") (case "too-large") (case "over-budget") (case "other" string)))
    (export "effect-error" (type (eq $effect-error)))))
  (alias export $types "message" (type $message))
  (alias export $types "close-frame" (type $close-frame))
  (alias export $types "effect-error" (type $effect-error))

  ;; `connections`: only what is used of it.
  (import "plugsock:plugin/connections@0.1.0" (instance $connections
    (alias outer 1 $message (type $message-type))
    (export "message" (type $message (eq $message-type)))
    (alias outer 1 $effect-error (type $effect-error-type))
    (export "effect-error" (type $effect-error (eq $effect-error-type)))
    (export "send" (func
      (param "connection" u64)
      (param "message" $message)
      (result (result (error $effect-error)))))))

  ;; Memory. The host allocates here for what it passes in; all of it is free again when the call
  ;; is over, so allocating only ever moves a pointer.
  (core module $heap-module
    (memory (export "memory") 1)
    ;; The first KiB is for results.
    (global $next (mut i32) (i32.const 1024))
    (func (export "reset")
      (global.set $next (i32.const 1024)))
    (func (export "realloc")
      (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
      (local $new i32) (local $end i32) (local $pages i32)
      ;; Round up to the alignment, a power of two.
      (local.set $new (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
      (local.set $end (i32.add (local.get $new) (local.get $size)))
      ;; More than 32 bits can address.
      (if (i32.lt_u (local.get $end) (local.get $new)) (then unreachable))
      (local.set $pages (i32.add
        (i32.shr_u (local.get $end) (i32.const 16)) (i32.const 1)))
      (if (i32.gt_u (local.get $pages) (memory.size)) (then
        (if (i32.eq (i32.const -1)
              (memory.grow (i32.sub (local.get $pages) (memory.size))))
          (then unreachable))))
      ;; Only a growing allocation has an old part.
      (memory.copy (local.get $new) (local.get $old) (local.get $old-size))
      (global.set $next (local.get $end))
      (local.get $new)))
  (core instance $heap (instantiate $heap-module))
  (alias core export $heap "memory" (core memory $memory))
  (alias core export $heap "realloc" (core func $realloc))
  (core func $send (canon lower (func $connections "send")
    (memory $memory) (realloc (core func $realloc))))

  (core module $echo-module
    (import "host" "send" (func $send (param i64 i32 i32 i32 i32)))
    (import "heap" "reset" (func $reset))
    (func (export "on-open") (param $connection i64))
    ;; A message arrives as three numbers: which case, address, length. It leaves as the same
    ;; three; the answer is written to address 0. A refused message is not sent again.
    (func (export "on-message")
      (param $connection i64) (param $case i32) (param $address i32) (param $length i32)
      (call $send (local.get $connection)
        (local.get $case) (local.get $address) (local.get $length) (i32.const 0))
      (call $reset))
    (func (export "on-close")
      (param $connection i64) (param $code i32) (param $address i32) (param $length i32)
      (call $reset)))
  (core instance $echo (instantiate $echo-module
    (with "host" (instance (export "send" (func $send))))
    (with "heap" (instance $heap))))

  (func $on-open (param "connection" u64)
    (canon lift (core func $echo "on-open")))
  (func $on-message (param "connection" u64) (param "message" $message)
    (canon lift (core func $echo "on-message") (memory $memory) (realloc (core func $realloc))))
  (func $on-close (param "connection" u64) (param "close" $close-frame)
    (canon lift (core func $echo "on-close") (memory $memory) (realloc (core func $realloc))))
  (instance $handler
    (export "message" (type $message))
    (export "close-frame" (type $close-frame))
    (export "on-open" (func $on-open))
    (export "on-message" (func $on-message))
    (export "on-close" (func $on-close)))
  (export "plugsock:plugin/handler@0.1.0" (instance $handler)))
